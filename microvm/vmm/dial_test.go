package vmm

import (
	"encoding/json"
	"net"
	"path/filepath"
	"testing"

	"github.com/nodeless/nodeless/microvm/wire"
)

// A guest in which a host has left half a frame responds to the next host's first attempt.
func TestDialCompletesWhatAnotherHostLeft(t *testing.T) {
	dir := t.TempDir()
	listener, err := net.Listen("unix", filepath.Join(dir, controlFile))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	guest := &port{listener: listener}
	served := make(chan error, 1)
	go func() {
		served <- wire.ServeGuest(guest, func(*wire.Stream, string, json.RawMessage) (any, error) { return nil, nil })
	}()

	conn, err := net.Dial("unix", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	broken := &interrupted{Conn: conn}
	session, err := wire.Dial(broken, false)
	if err != nil {
		t.Fatal(err)
	}
	broken.now = true
	if _, err := session.Open(wire.KindHello, nil); err != nil {
		t.Fatal(err)
	}
	_ = session.Close()

	p := &Process{dir: dir, done: make(chan struct{})}
	next, err := p.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = next.Serve() }()
	if err := next.Call(t.Context(), wire.KindHello, nil, nil); err != nil {
		t.Error(err)
	}
	_ = next.Close()
	_ = listener.Close()
	<-served
	if guest.hosts != 2 {
		t.Errorf("%d hosts connected, want 2: one that left half a frame, one that was answered at once", guest.hosts)
	}
}

// port is a guest's control port, which does not tell one host from the next.
type port struct {
	listener net.Listener
	conn     net.Conn
	hosts    int
}

func (p *port) Read(b []byte) (int, error) {
	for {
		if p.conn == nil {
			conn, err := p.listener.Accept()
			if err != nil {
				return 0, err
			}
			p.conn = conn
			p.hosts++
		}
		n, err := p.conn.Read(b)
		if err == nil {
			return n, nil
		}
		_ = p.conn.Close()
		p.conn = nil
	}
}

func (p *port) Write(b []byte) (int, error) { return p.conn.Write(b) }

// interrupted is a connection whose host is killed before the last byte of a write.
type interrupted struct {
	net.Conn
	now bool
}

func (c *interrupted) Write(b []byte) (int, error) {
	if c.now {
		_, err := c.Conn.Write(b[:len(b)-1])
		return len(b), err
	}
	return c.Conn.Write(b)
}
