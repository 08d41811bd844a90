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
)

// gateway passes connections on to an address that their makers cannot reach: the API server's on loopback. It is the
// API server itself that asks who they are.
type gateway struct {
	listener net.Listener
	to       string
	slots    chan struct{}
}

// mostConnections that a gateway has open; more wait.
const mostConnections = 4096

// openGateway listens at an address, at the wanted port if it is free.
func openGateway(ctx context.Context, at netip.Addr, port uint16, to string) (*gateway, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp4", netip.AddrPortFrom(at, port).String())
	if err != nil {
		l, err = config.Listen(ctx, "tcp4", netip.AddrPortFrom(at, 0).String())
	}
	if err != nil {
		return nil, fmt.Errorf("gateway to %s: %w", to, err)
	}
	return &gateway{listener: l, to: to, slots: make(chan struct{}, mostConnections)}, nil
}

// At is where it listens.
func (g *gateway) At() netip.AddrPort { return g.listener.Addr().(*net.TCPAddr).AddrPort() }

// Close ends the listening if run is not called.
func (g *gateway) Close() error { return g.listener.Close() }

// run passes connections on until ctx is done, and then ends them.
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
		if err != nil { // for now: there are no descriptors left
			<-g.slots
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		open.Go(func() {
			defer func() { <-g.slots }()
			g.pass(ctx, conn)
		})
	}
}

// pass copies both ways until both sides have ended.
func (g *gateway) pass(ctx context.Context, from net.Conn) {
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
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		both.Go(func() {
			_, _ = io.Copy(way[1], way[0])
			if half, ok := way[1].(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			}
		})
	}
	both.Wait()
}
