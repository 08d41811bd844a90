package network

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
)

// Data passes in both directions, and one side can close its direction before the other.
func TestAGatewayPassesConnectionsOn(t *testing.T) {
	server, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				b, _ := io.ReadAll(conn) // until the client closes its direction
				_, _ = conn.Write(append([]byte("heard "), b...))
				_ = conn.Close()
			}()
		}
	}()
	g, err := openGateway(t.Context(), netip.MustParseAddr("127.0.0.1"),
		server.Addr().(*net.TCPAddr).AddrPort().Port(), server.Addr().String())
	if err != nil {
		t.Fatal(err) // the server occupies the wanted port, so the gateway takes another
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.run(ctx) }()
	open := dialed(t, g)
	conn := dialed(t, g)
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	_ = conn.(*net.TCPConn).CloseWrite()
	if b, err := io.ReadAll(conn); err != nil || string(b) != "heard hello" {
		t.Errorf("%q, %v", b, err)
	}
	cancel()
	if err := <-done; err != nil { // it does not wait for idle connections
		t.Error(err)
	}
	if _, err := io.ReadAll(open); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Error("an open connection:", err)
	}
}

func dialed(t *testing.T, g *gateway) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp4", g.At().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
