package wire

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Channels of a stream's data, numbered like a process's descriptors.
const (
	Stdin  = 0
	Stdout = 1
	Stderr = 2
)

// Item is something received on a stream.
type Item struct {
	Channel byte            // of Data or End
	Data    []byte          // nil for a message and at the end of a channel
	End     bool            // no more data on Channel
	Message json.RawMessage // set for a message
	cost    int             // against the window: that of all its frames
	lent    int             // the part of cost by which the window was extended
}

// Stream is one conversation of a session. One goroutine may receive while others send.
type Stream struct {
	c  *Conn
	id uint32

	mu      sync.Mutex
	changed *sync.Cond
	queue   []Item
	partial partial // a message, reply or opening whose frames have not all arrived
	held    int     // cost of queue and partial
	lent    int     // by how much the window is extended for queue and partial
	credit  int     // bytes that may be sent
	answer  *reply
	err     error // set when nothing more arrives
	closed  chan struct{}
}

func newStream(c *Conn, id uint32) *Stream {
	s := &Stream{c: c, id: id, credit: Window, closed: make(chan struct{})}
	s.changed = sync.NewCond(&s.mu)
	return s
}

// Done returns a channel that is closed when nothing more arrives on the stream.
func (s *Stream) Done() <-chan struct{} { return s.closed }

// Send sends data on a channel. It blocks while the other side has not taken Window bytes.
func (s *Stream) Send(channel byte, data []byte) error {
	for len(data) > 0 {
		n, err := s.reserve(min(len(data), MaxPayload-1), 1)
		if err != nil {
			return err
		}
		if err := s.sendData(channel, data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// SendWhole is like Send for less than MaxPayload bytes, which the other side receives as one Item.
func (s *Stream) SendWhole(channel byte, data []byte) error {
	if len(data) >= MaxPayload {
		return fmt.Errorf("%d bytes, which are more than a frame takes", len(data))
	}
	if _, err := s.reserve(len(data), len(data)); err != nil {
		return err
	}
	return s.sendData(channel, data)
}

func (s *Stream) sendData(channel byte, data []byte) error {
	return s.c.send(frame{kind: frameData, stream: s.id, payload: append([]byte{channel}, data...)})
}

// Writer returns an io.Writer that sends on a channel.
func (s *Stream) Writer(channel byte) io.Writer { return writer{s, channel} }

type writer struct {
	s       *Stream
	channel byte
}

func (w writer) Write(p []byte) (int, error) {
	if err := w.s.Send(w.channel, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// End signals that there is no more data on a channel.
func (s *Stream) End(channel byte) error {
	if _, err := s.reserve(0, 0); err != nil {
		return err
	}
	return s.c.send(frame{kind: frameEnd, stream: s.id, payload: []byte{channel}})
}

// SendMessage sends v as JSON.
func (s *Stream) SendMessage(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	return s.sendParts(frameMessage, b, true)
}

// sendParts sends a payload in as many frames as it needs. If counted, each frame waits for the window.
func (s *Stream) sendParts(kind frameType, b []byte, counted bool) error {
	for {
		n := min(len(b), MaxPayload)
		if counted {
			var err error
			if n, err = s.reserve(n, min(n, 1)); err != nil {
				return err
			}
		}
		f := frame{kind: kind, stream: s.id, payload: b[:n]}
		b = b[n:]
		if len(b) > 0 {
			f.flags = flagMore
		}
		if err := s.c.send(f); err != nil || len(b) == 0 {
			return err
		}
	}
}

// reserve waits until a frame with at least least of n bytes may be sent, and returns how many bytes it may have.
func (s *Stream) reserve(n, least int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.credit < frameCost+least && s.err == nil {
		s.changed.Wait()
	}
	if s.err != nil {
		return 0, s.err
	}
	n = min(n, s.credit-frameCost)
	s.credit -= n + frameCost
	return n, nil
}

// Receive waits for the next item. io.EOF means that the stream has ended normally.
func (s *Stream) Receive() (Item, error) {
	s.mu.Lock()
	for len(s.queue) == 0 && s.err == nil {
		s.changed.Wait()
	}
	if len(s.queue) == 0 {
		defer s.mu.Unlock()
		return Item{}, s.err
	}
	it := s.queue[0]
	s.queue = s.queue[1:]
	s.held -= it.cost
	s.lent -= it.lent
	taken := it.cost - it.lent + s.lend()
	ended := s.err != nil
	s.mu.Unlock()
	if !ended && taken > 0 {
		if err := s.grant(taken); err != nil && !errors.Is(err, ErrClosed) {
			return Item{}, err
		}
	}
	return it, nil
}

// Queued returns how many items are queued, which Receive returns at once.
func (s *Stream) Queued() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue)
}

// grant lets the other side send n more bytes.
func (s *Stream) grant(n int) error {
	return s.c.send(frame{kind: frameWindow, stream: s.id, payload: binary.BigEndian.AppendUint32(nil, uint32(n))})
}

// Wait discards all items, waits for the guest's reply and decodes it into result, unless result is nil. If the guest
// refuses the request, the error is a *RemoteError.
func (s *Stream) Wait(ctx context.Context, result any) error {
	stop := context.AfterFunc(ctx, func() { s.abandon(ctx.Err()) })
	defer stop()
	for {
		_, err := s.Receive()
		if err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) {
			return err
		}
		break
	}
	return s.Reply(result)
}

// RemoteError is the guest agent's refusal of a request.
type RemoteError struct{ Message string }

func (e *RemoteError) Error() string { return e.Message }

// Reply decodes the guest's reply once Receive has returned io.EOF.
func (s *Stream) Reply(result any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.answer == nil:
		return errReset
	case s.answer.Error != "":
		return &RemoteError{CutMessage(s.answer.Error)}
	case result == nil || len(s.answer.Result) == 0:
		return nil
	}
	if err := json.Unmarshal(s.answer.Result, result); err != nil {
		return fmt.Errorf("decode the guest agent's reply: %w", err)
	}
	return nil
}

// Close closes the stream on both sides.
func (s *Stream) Close() { s.abandon(ErrClosed) }

// abandon ends the stream, and removes it once the other side is told, which counts it until then.
func (s *Stream) abandon(cause error) {
	if s.end(cause) {
		_ = s.c.send(frame{kind: frameReset, stream: s.id})
		s.forget(cause)
	}
}

// forget removes the stream from its session.
func (s *Stream) forget(cause error) {
	s.c.mu.Lock()
	delete(s.c.streams, s.id)
	s.c.mu.Unlock()
	s.end(cause)
}

// end stops the stream from receiving anything more, and reports whether it was the first to do so. Items that have
// arrived can still be received.
func (s *Stream) end(cause error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.err == nil
	if first {
		s.err = cause
		close(s.closed)
	}
	s.changed.Broadcast()
	return first
}
