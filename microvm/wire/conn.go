package wire

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Limits of messages and streams. A pod's spec contains its ConfigMaps and Secrets; a guest's messages are small.
const (
	maxFromHost  = 64 << 20
	maxFromGuest = 1 << 20
	maxStreams   = 1024 // at once
	// reservedStreams are those of maxStreams that users cannot open, so that the host's own requests, such as pings and
	// stops, find room.
	reservedStreams = 16
)

// ErrClosed is returned for a connection that has ended.
var ErrClosed = errors.New("connection to the other side is closed")

// Handler serves a stream that the host has opened, with the host's kind and request. Its result or error is the
// reply that ends the stream. Each stream has its own goroutine.
type Handler func(s *Stream, kind string, request json.RawMessage) (result any, err error)

// Conn is a session between host and guest. It is safe for concurrent use.
type Conn struct {
	rw      io.ReadWriteCloser
	r       *bufio.Reader
	handler Handler // nil on the host: a guest opens no streams
	maxMsg  int     // maximum bytes of a message from the other side

	writing sync.Mutex

	mu      sync.Mutex
	streams map[uint32]*Stream
	next    uint32
	err     error
	done    chan struct{}
}

func newConn(rw io.ReadWriteCloser, r *bufio.Reader, handler Handler) *Conn {
	c := &Conn{
		rw: rw, r: r, handler: handler, streams: map[uint32]*Stream{}, done: make(chan struct{}),
		maxMsg: maxFromGuest,
	}
	if handler != nil {
		c.maxMsg = maxFromHost
	}
	return c
}

// Serve receives until the session ends, and returns why it ended. Nothing is received unless Serve runs.
func (c *Conn) Serve() error {
	for {
		if c.handler != nil {
			if b, err := c.r.Peek(len(preambleMagic)); err == nil && string(b) == preambleMagic {
				return c.fail(errNextSession)
			}
		}
		f, err := readFrame(c.r)
		if err == nil {
			err = c.take(f)
		}
		if err != nil {
			return c.fail(err)
		}
	}
}

// Close ends the session and all its streams.
func (c *Conn) Close() error {
	_ = c.fail(ErrClosed)
	return nil
}

// Done returns a channel that is closed when the session has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err returns why the session ended, or nil if it has not.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// fail ends the session. The first cause is kept.
func (c *Conn) fail(cause error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	c.err = cause
	for _, s := range c.streams {
		s.end(fmt.Errorf("%w: %w", ErrClosed, cause))
	}
	c.streams = nil
	close(c.done)
	_ = c.rw.Close()
	return cause
}

func (c *Conn) send(f frame) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.Err(); err != nil {
		return ErrClosed
	}
	if _, err := c.rw.Write(appendFrame(make([]byte, 0, headerSize+len(f.payload)), f)); err != nil {
		return c.fail(err)
	}
	return nil
}

// opening is the payload of a frameOpen message.
type opening struct {
	Kind    string
	Request json.RawMessage
}

// encodeOpening encodes the payload of a frameOpen message.
func encodeOpening(kind string, request any) ([]byte, error) {
	body, err := json.Marshal(request)
	if err == nil {
		body, err = json.Marshal(opening{kind, body})
	}
	if err != nil {
		return nil, fmt.Errorf("encode a %s request: %w", kind, err)
	}
	return body, nil
}

// Open opens a stream of a kind. Only the host can open streams. Open blocks while the guest does not read.
func (c *Conn) Open(kind string, request any) (*Stream, error) {
	payload, err := encodeOpening(kind, request)
	if err != nil {
		return nil, err
	}
	return c.open(kind, payload)
}

func (c *Conn) open(kind string, payload []byte) (*Stream, error) {
	most := maxStreams
	if kind == KindExec || kind == KindAttach || kind == KindConnect {
		most -= reservedStreams
	}
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return nil, ErrClosed
	}
	if n := len(c.streams); n >= most { // the guest would end the session
		c.mu.Unlock()
		return nil, fmt.Errorf("%d streams to the pod are open, as many as it takes: close some of them", n)
	}
	c.next++
	s := newStream(c, c.next)
	c.streams[s.id] = s
	c.mu.Unlock()
	return s, s.sendParts(frameOpen, payload, false)
}

// Call opens a stream, waits for the reply and decodes it into result, unless result is nil. It returns when ctx ends,
// even if the guest does not read; what is being written is then written until the session ends.
func (c *Conn) Call(ctx context.Context, kind string, request, result any) error {
	payload, err := encodeOpening(kind, request)
	if err != nil {
		return err
	}
	type answer struct {
		s   *Stream
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		s, err := c.open(kind, payload)
		if err == nil {
			defer s.Close()
			err = s.Wait(ctx, nil)
		}
		answered <- answer{s, err}
	}()
	select {
	case a := <-answered:
		if err = a.err; err == nil {
			err = a.s.Reply(result)
		}
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	return nil
}

// take passes a frame to its stream. An error ends the session.
func (c *Conn) take(f frame) error {
	c.mu.Lock()
	s := c.streams[f.stream]
	if s == nil && f.kind == frameOpen {
		switch {
		case c.handler == nil:
			c.mu.Unlock()
			return broken("a guest opens a stream")
		case len(c.streams) >= maxStreams:
			c.mu.Unlock()
			return broken("more than %d streams", maxStreams)
		}
		s = newStream(c, f.stream)
		c.streams[f.stream] = s
	}
	c.mu.Unlock()
	if s == nil {
		return nil // the stream was closed here while the frame was in transit
	}
	switch f.kind {
	case frameOpen:
		if c.handler == nil {
			return broken("a guest opens a stream")
		}
		return s.takeOpen(f)
	case frameData, frameEnd:
		return s.takeData(f)
	case frameMessage:
		return s.takeMessage(f)
	case frameWindow:
		if len(f.payload) != 4 {
			return broken("a window update of %d bytes", len(f.payload))
		}
		return s.widen(binary.BigEndian.Uint32(f.payload))
	case frameReply:
		if c.handler != nil {
			return broken("a host replies")
		}
		return s.takeReply(f)
	default: // frameReset
		s.forget(errReset)
		return nil
	}
}

var errReset = errors.New("the other side closed the stream")

// reply is the payload of a frameReply. At most one of its fields is set.
type reply struct {
	Result json.RawMessage `json:",omitempty"`
	Error  string          `json:",omitempty"`
}

// serve runs the handler for a stream that the host has opened.
func (c *Conn) serve(s *Stream, o opening) {
	var out reply
	result, err := c.handler(s, o.Kind, o.Request)
	if err == nil && result != nil {
		out.Result, err = json.Marshal(result)
	}
	if err != nil {
		out = reply{Error: err.Error()}
	}
	payload, err := json.Marshal(out)
	s.forget(io.EOF) // before the host, which may open another stream in its place
	if err == nil {
		_ = s.sendParts(frameReply, payload, false) // a failed send has ended the session
	}
}
