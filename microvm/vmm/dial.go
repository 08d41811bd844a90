package vmm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/wire"
)

// Time limits of an attempt to start a session. The first attempt with a VM that this process started may have to
// wait for the guest to boot. On any other attempt, an earlier session may have left half a frame behind. The attempt
// that completes the frame is repeated with a longer limit each time, since the guest may lose data that it is sent
// while hosts connect and disconnect.
const (
	bootTime   = 30 * time.Second
	answerTime = 5 * time.Second
)

// Dial starts a session with the guest's agent. It waits until ctx ends for a guest that is booting. There can be
// only one session at a time.
func (p *Process) Dial(ctx context.Context) (*wire.Conn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-p.done:
			cancel(fmt.Errorf("it has ended: %s", p.LastWords()))
		case <-ctx.Done():
		}
	}()
	stale, limit := !p.fresh, bootTime
	if stale {
		limit = answerTime
	}
	p.fresh = false
	for ; ; stale, limit = true, min(2*limit, bootTime) {
		c, err := p.dialOnce(ctx, stale, limit)
		if cause := context.Cause(ctx); err != nil && cause != nil {
			return nil, fmt.Errorf("VM %s: %w", p.record.ID, cause)
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return c, err
		}
	}
}

func (p *Process) dialOnce(ctx context.Context, stale bool, limit time.Duration) (*wire.Conn, error) {
	conn, err := dialUnix(ctx, filepath.Join(p.dir, controlFile))
	if err != nil {
		return nil, fmt.Errorf("VM %s: connect to its control port: %w", p.record.ID, err)
	}
	_ = conn.SetDeadline(time.Now().Add(limit))
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	c, err := wire.Dial(conn, stale)
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("VM %s: %w", p.record.ID, err)
	}
	_ = conn.SetDeadline(time.Time{})
	return c, nil
}

// probeAgent waits until the guest's agent answers a request.
func (p *Process) probeAgent(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c, err := p.Dial(ctx)
	if err == nil {
		go func() { _ = c.Serve() }()
		err = c.Call(ctx, wire.KindHello, nil, nil)
		_ = c.Close()
	}
	if err != nil {
		return fmt.Errorf("the guest's agent does not answer within %s: %w %s", limit, err, p.LastWords())
	}
	return nil
}

// dialUnix connects to a socket whose path may exceed the 108 bytes that an address can hold.
func dialUnix(ctx context.Context, path string) (net.Conn, error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	var d net.Dialer
	for {
		conn, err := d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
		if !errors.Is(err, unix.ECONNREFUSED) || !retry(ctx) {
			return conn, err
		}
	}
}

// retry pauses before another attempt, since a VMM creates its socket a moment before it listens. It returns false if
// ctx has ended.
func retry(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(time.Millisecond):
		return true
	}
}
