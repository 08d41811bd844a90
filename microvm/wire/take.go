package wire

import (
	"encoding/json"
	"io"
)

// frameCost is what a frame costs of a stream's window in addition to its bytes, so that the window also limits the
// number of items.
const frameCost = 64

// partial is a JSON payload whose frames have not all arrived.
type partial struct {
	kind  frameType // of its frames; 0: there is none
	bytes []byte
	cost  int // against the window
	lent  int // the part of cost by which the window was extended
}

// charge counts an arrival against the window, which the sender must not exceed. s.mu is held.
func (s *Stream) charge(cost int) error {
	if s.held += cost; s.held-s.lent > Window {
		return broken("more than %d bytes on a stream before they are taken", Window)
	}
	return nil
}

// lend extends the window for a message that does not fit into it, by enough for one more frame, and returns by how
// much. It does so only while no other item is queued, so that a stream holds at most one message beyond its window.
// s.mu is held.
func (s *Stream) lend() int {
	room := Window - (s.held - s.lent)
	if s.partial.kind != frameMessage || len(s.queue) > 0 || room >= MaxPayload+frameCost {
		return 0
	}
	n := MaxPayload + frameCost - room
	s.partial.lent += n
	s.lent += n
	return n
}

// widen records that the other side has taken n bytes.
func (s *Stream) widen(n uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > Window || s.credit+int(n) > Window {
		return broken("a window larger than %d bytes", Window)
	}
	s.credit += int(n)
	s.changed.Broadcast()
	return nil
}

func (s *Stream) takeData(f frame) error {
	if len(f.payload) == 0 || f.kind == frameEnd && len(f.payload) != 1 || f.flags != 0 {
		return broken("data without a channel, or an end with data")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil // closed here while the frame was in transit
	}
	cost := len(f.payload) - 1 + frameCost
	s.queue = append(s.queue, Item{Channel: f.payload[0], Data: f.payload[1:], End: f.kind == frameEnd, cost: cost})
	s.changed.Broadcast()
	return s.charge(cost)
}

// assemble adds a frame to a JSON payload, and returns the payload once it is complete. s.mu is held.
func (s *Stream) assemble(f frame) ([]byte, bool, error) {
	if s.partial.kind != 0 && s.partial.kind != f.kind {
		return nil, false, broken("a message, reply or opening within another one")
	}
	if len(s.partial.bytes)+len(f.payload) > s.c.maxMsg {
		return nil, false, broken("a message of more than %d bytes", s.c.maxMsg)
	}
	s.partial.kind = f.kind
	s.partial.bytes = append(s.partial.bytes, f.payload...)
	if f.flags&flagMore != 0 {
		if len(f.payload) == 0 {
			return nil, false, broken("an empty part of a message")
		}
		return nil, false, nil
	}
	whole := s.partial.bytes
	s.partial.kind, s.partial.bytes = 0, nil
	if !json.Valid(whole) {
		return nil, false, broken("a message that is not JSON")
	}
	return whole, true, nil
}

// takeMessage queues a message once it is complete. All its frames count against the window until it is received.
func (s *Stream) takeMessage(f frame) error {
	lent, err := s.queueMessage(f)
	if err != nil || lent == 0 {
		return err
	}
	return s.grant(lent)
}

// queueMessage queues a complete message. It returns by how much it extended the window for the next frame.
func (s *Stream) queueMessage(f frame) (lent int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, nil // closed here while the frame was in transit
	}
	whole, ok, err := s.assemble(f)
	if err != nil {
		return 0, err
	}
	cost := len(f.payload) + frameCost
	s.partial.cost += cost
	if err := s.charge(cost); err != nil {
		return 0, err
	}
	if !ok {
		return s.lend(), nil
	}
	s.queue = append(s.queue, Item{Message: whole, cost: s.partial.cost, lent: s.partial.lent})
	s.partial = partial{}
	s.changed.Broadcast()
	return 0, nil
}

// takeWhole assembles an opening or a reply, and decodes it once it is complete. Neither counts against the window,
// since a stream has only one of each.
func takeWhole[T any](s *Stream, f frame) (v T, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	whole, ok, err := s.assemble(f)
	if err != nil || !ok {
		return v, false, err
	}
	if err := json.Unmarshal(whole, &v); err != nil {
		return v, false, broken("an opening or a reply that cannot be read: %v", err)
	}
	return v, true, nil
}

func (s *Stream) takeOpen(f frame) error {
	o, ok, err := takeWhole[opening](s, f)
	if ok {
		go s.c.serve(s, o)
	}
	return err
}

func (s *Stream) takeReply(f frame) error {
	r, ok, err := takeWhole[reply](s, f)
	if !ok {
		return err
	}
	s.mu.Lock()
	s.answer = &r
	s.mu.Unlock()
	s.forget(io.EOF)
	return nil
}
