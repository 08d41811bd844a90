package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
)

// gateway forwards connections to an address that its clients cannot reach: that of the API server, on loopback. The
// API server itself authenticates the clients.
type gateway struct {
	listener net.Listener
	to       string
	slots    chan struct{}
}

// maxConnections is the maximum number of open connections of a gateway; further ones wait.
const maxConnections = 4096

// openGateway listens at an address: at the wanted port or, if that is taken, at a free one.
func openGateway(ctx context.Context, at netip.Addr, port uint16, to string) (*gateway, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp4", netip.AddrPortFrom(at, port).String())
	if err != nil {
		l, err = config.Listen(ctx, "tcp4", netip.AddrPortFrom(at, 0).String())
	}
	if err != nil {
		return nil, fmt.Errorf("gateway to %s: %w", to, err)
	}
	return &gateway{listener: l, to: to, slots: make(chan struct{}, maxConnections)}, nil
}

// At returns the address and port at which the gateway listens.
func (g *gateway) At() netip.AddrPort { return g.listener.Addr().(*net.TCPAddr).AddrPort() }

// Close stops listening. It is for gateways that are not run.
func (g *gateway) Close() error { return g.listener.Close() }

// run forwards connections until ctx is done, and then closes them.
func (g *gateway) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = g.listener.Close() })
	defer stop()
	var open sync.WaitGroup
	defer open.Wait()
	for {
		select {
		case g.slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		conn, err := g.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil { // temporary, such as a lack of file descriptors
			<-g.slots
			_ = clock.Sleep(ctx, clock.Real{}, 100*time.Millisecond)
			continue
		}
		open.Go(func() {
			defer func() { <-g.slots }()
			g.forward(ctx, conn)
		})
	}
}

// forward copies data in both directions until both sides have ended.
func (g *gateway) forward(ctx context.Context, from net.Conn) {
	defer func() { _ = from.Close() }()
	var d net.Dialer
	to, err := d.DialContext(ctx, "tcp", g.to)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	stop := context.AfterFunc(ctx, func() { _, _ = from.Close(), to.Close() })
	defer stop()
	var both sync.WaitGroup
	for _, direction := range [][2]net.Conn{{from, to}, {to, from}} {
		both.Go(func() {
			_, _ = io.Copy(direction[1], direction[0])
			if half, ok := direction[1].(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			}
		})
	}
	both.Wait()
}
