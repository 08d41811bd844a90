package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/nodeless/nodeless/microvm/wire"
)

// Guest sends requests to a VM's guest. Each request waits for a session until its context ends.
type Guest struct {
	id    string
	ended chan struct{} // closed when the VM has ended

	mu      sync.Mutex
	conn    *wire.Conn // nil while there is no session
	changed chan struct{}
}

func newGuest(id string) Guest {
	return Guest{id: id, ended: make(chan struct{}), changed: make(chan struct{})}
}

// setConn begins a session, or ends it with nil.
func (g *Guest) setConn(c *wire.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conn = c
	close(g.changed)
	g.changed = make(chan struct{})
}

// current returns the current session, or nil.
func (g *Guest) current() *wire.Conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.conn
}

// connected waits for a session.
func (g *Guest) connected(ctx context.Context) (*wire.Conn, error) {
	for {
		g.mu.Lock()
		conn, changed := g.conn, g.changed
		g.mu.Unlock()
		if conn != nil {
			return conn, nil
		}
		select {
		case <-changed:
		case <-g.ended:
			return nil, fmt.Errorf("pod %s: the guest cannot be reached: its VM has ended", g.id)
		case <-ctx.Done():
			return nil, fmt.Errorf("pod %s: the guest cannot be reached: %w", g.id, ctx.Err())
		}
	}
}

func (g *Guest) call(ctx context.Context, kind string, request, result any) error {
	conn, err := g.connected(ctx)
	if err != nil {
		return err
	}
	if err := conn.Call(ctx, kind, request, result); err != nil {
		return fmt.Errorf("pod %s: %w", g.id, err)
	}
	return nil
}

// UpdateFiles replaces all files of a projected volume atomically.
func (g *Guest) UpdateFiles(ctx context.Context, v wire.Volume) error {
	return g.call(ctx, wire.KindFiles, v, nil)
}

// Flush waits until all log records that the agent has read are stored: for an ended container, its whole log.
func (g *Guest) Flush(ctx context.Context) error {
	return g.call(ctx, wire.KindFlush, nil, nil)
}

// Streams are the streams of an exec or attach; nil ones are not connected.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Resize         <-chan wire.Size
}

// Exec runs a command in a container to its end and returns its exit code.
func (g *Guest) Exec(ctx context.Context, container string, args []string, tty bool, s Streams) (int, error) {
	return g.interact(ctx, wire.KindExec, wire.Exec{
		Container: container, Args: args, TTY: tty, Stdin: s.Stdin != nil, Stdout: s.Stdout != nil, Stderr: s.Stderr != nil,
	}, s)
}

// Attach connects to a container's first process until the process or ctx ends.
func (g *Guest) Attach(ctx context.Context, container string, s Streams) error {
	_, err := g.interact(ctx, wire.KindAttach,
		wire.Attach{Container: container, Stdin: s.Stdin != nil, Stdout: s.Stdout != nil, Stderr: s.Stderr != nil}, s)
	return err
}

func (g *Guest) interact(ctx context.Context, kind string, request any, s Streams) (int, error) {
	stream, err := g.open(ctx, kind, request)
	if err != nil {
		return 0, err
	}
	defer stream.Close()
	defer context.AfterFunc(ctx, stream.Close)()
	if s.Stdin != nil {
		go send(stream, s.Stdin) // ends with the reader, which is the caller's
	}
	go func() {
		for {
			select {
			case size, ok := <-s.Resize:
				if !ok {
					return
				}
				_ = stream.SendMessage(size)
			case <-stream.Done():
				return
			}
		}
	}()
	var result wire.ExecResult
	for {
		it, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			if err := stream.Reply(&result); err != nil {
				return 0, fmt.Errorf("pod %s: %s: %w", g.id, kind, err)
			}
			return result.Code, nil
		}
		if err != nil {
			return 0, fmt.Errorf("pod %s: %s: %w", g.id, kind, errors.Join(err, ctx.Err()))
		}
		to := s.Stdout
		if it.Channel == wire.Stderr {
			to = s.Stderr
		}
		if to != nil && len(it.Data) > 0 {
			if _, err := to.Write(it.Data); err != nil {
				return 0, err
			}
		}
	}
}

// open waits for a session and opens a stream.
func (g *Guest) open(ctx context.Context, kind string, request any) (*wire.Stream, error) {
	conn, err := g.connected(ctx)
	if err != nil {
		return nil, err
	}
	stream, err := conn.Open(kind, request)
	if err != nil {
		return nil, fmt.Errorf("pod %s: %s: %w", g.id, kind, err)
	}
	return stream, nil
}

// send copies a reader to the stream's standard input and then closes it.
func send(s *wire.Stream, from io.Reader) {
	_, _ = io.Copy(s.Writer(wire.Stdin), from)
	_ = s.End(wire.Stdin)
}

// PortForward carries bytes between a connection and a port of the pod until either side ends. It closes conn.
func (g *Guest) PortForward(ctx context.Context, port int, conn io.ReadWriteCloser) error {
	defer func() { _ = conn.Close() }()
	stream, err := g.open(ctx, wire.KindConnect, wire.Connect{Port: port})
	if err != nil {
		return err
	}
	defer stream.Close()
	defer context.AfterFunc(ctx, stream.Close)()
	go send(stream, conn)
	for {
		it, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			return stream.Reply(nil)
		}
		if err != nil {
			return err
		}
		if _, err := conn.Write(it.Data); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
	}
}
