package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/guest/enter"
	"github.com/nodeless/nodeless/microvm/wire"
)

// exec runs a process in a running container.
func (p *pod) exec(s *wire.Stream, req wire.Exec) (wire.ExecResult, error) {
	r, err := p.running(req.Container)
	if err != nil {
		return wire.ExecResult{}, err
	}
	io, err := newStdio(req.TTY, req.Stdin, req.Size, func(channel byte, from io.Reader) {
		if channel == wire.Stdout && req.Stdout || channel == wire.Stderr && req.Stderr || req.TTY {
			_, _ = copyTo(s.Writer(channel), from)
		}
	})
	if err != nil {
		return wire.ExecResult{}, err
	}
	pid, ended, err := r.join(req.Args, io, req.TTY)
	if err != nil {
		io.drain()
		return wire.ExecResult{}, err
	}
	done := make(chan struct{})
	go func() {
		feed(s, io, true)
		select { // if the host has disconnected, nothing else ends the process
		case <-done:
		default:
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}()
	status := <-ended
	close(done)
	io.drain()
	return wire.ExecResult{Code: exitCode(status)}, nil
}

// copyTo is io.Copy without its shortcuts, which would bypass the poller on a terminal. EIO, which a terminal returns
// at its end, counts as the end of the file.
func copyTo(w io.Writer, r io.Reader) (int64, error) {
	n, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, make([]byte, 16<<10))
	if errors.Is(err, unix.EIO) {
		err = nil
	}
	return n, err
}

// join starts a process in the run's container.
func (r *run) join(args []string, io *stdio, tty bool) (int, <-chan unix.WaitStatus, error) {
	if len(args) == 0 {
		io.started()
		return 0, nil, errors.New("no command to execute")
	}
	first, err := unix.PidfdOpen(r.pid, 0)
	if err != nil {
		io.started()
		return 0, nil, fmt.Errorf("container %s is not running", r.c.spec.Name)
	}
	process := os.NewFile(uintptr(first), "container")
	defer func() { _ = process.Close() }()
	spec := r.c.current()
	spec.Args = args
	if tty && !slices.ContainsFunc(spec.Env, func(v string) bool { return len(v) > 5 && v[:5] == "TERM=" }) {
		spec.Env = append(slices.Clone(spec.Env), "TERM=xterm")
	}
	return r.c.pod.processes.enter(enter.Entry{Join: true, HostKernel: r.c.pod.host != nil, Container: spec}, io,
		enterOptions{cgroup: r.cgroup, version1: r.version1, join: process, pidsOf: r.pid})
}

// feed passes input and terminal sizes from the host to a process until the stream ends.
func feed(s *wire.Stream, to *stdio, closeAtEnd bool) {
	for {
		it, err := s.Receive()
		if err != nil {
			return
		}
		switch {
		case it.Message != nil:
			if size, err := wire.Message[wire.Size](it); err == nil {
				_ = to.resize(size)
			}
		case it.Channel != wire.Stdin || to.input == nil:
		case it.End:
			if to.terminal == nil && closeAtEnd {
				_ = to.input.Close()
			}
		default:
			_, _ = to.input.Write(it.Data) // it is no error if the process no longer reads
		}
	}
}

// attach connects the host to a container's first process.
func (p *pod) attach(s *wire.Stream, req wire.Attach) (wire.ExecResult, error) {
	r, err := p.running(req.Container)
	if err != nil {
		return wire.ExecResult{}, err
	}
	if req.Size != nil {
		_ = r.io.resize(*req.Size)
	}
	r.output.add(s, req)
	defer r.output.remove(s)
	go feed(s, r.io, r.c.spec.StdinOnce)
	select {
	case <-r.exited:
	case <-s.Done():
	}
	return wire.ExecResult{}, nil
}

const (
	maxProbeOutput = 10 << 10    // bytes, as kubelet's
	outputLimit    = time.Second // for output that a process which the command left behind might still write
)

// execute runs the command of a probe or hook in the container. An error has the beginning of its output; it is
// unperformed if the command cannot be started.
func (r *run) execute(ctx context.Context, args []string) error {
	var out limitedBuffer
	io, err := newStdio(false, false, nil, func(_ byte, from io.Reader) { _, _ = io.Copy(&out, from) })
	if err != nil {
		return err
	}
	pid, ended, err := r.join(args, io, false)
	if err != nil {
		io.drain()
		return unperformed{err}
	}
	stop := context.AfterFunc(ctx, func() { _ = unix.Kill(pid, unix.SIGKILL) })
	status := <-ended
	if !stop() {
		return fmt.Errorf("command timed out: %q", args)
	}
	io.drainFor(ctx, outputLimit)
	if code := exitCode(status); code != 0 {
		return fmt.Errorf("command %q exited with %d: %s", args, code, out.String())
	}
	return nil
}

// limitedBuffer keeps the first maxProbeOutput bytes that are written.
type limitedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *limitedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if room := maxProbeOutput - l.b.Len(); room > 0 {
		l.b.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

func (l *limitedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
