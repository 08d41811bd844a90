package wire

import (
	"encoding/json"
	"io"
)

// frameCost is what a frame costs of a stream's window beside its bytes, so that the window bounds the number of
// items too.
const frameCost = 64

// partial is a JSON payload of which frames are still to come.
type partial struct {
	kind  frameType // of its frames; 0: there is none
	bytes []byte
	cost  int // of the window
	lent  int // of the cost, what the window was widened by
}

// charge counts what arrived against the window, which the sender has to keep. s.mu is held.
func (s *Stream) charge(cost int) error {
	if s.held += cost; s.held-s.lent > Window {
		return broken("more than %d bytes on a stream before they are taken", Window)
	}
	return nil
}

// lend widens the window for a message that does not fit into it, and says by how much: enough for one more frame. It
// does so only while nothing else waits to be taken, so that a stream holds at most one message more than its window.
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

// widen notes that the other side took n bytes.
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
		return nil // given up here while it was on its way
	}
	cost := len(f.payload) - 1 + frameCost
	s.queue = append(s.queue, Item{Channel: f.payload[0], Data: f.payload[1:], End: f.kind == frameEnd, cost: cost})
	s.changed.Broadcast()
	return s.charge(cost)
}

// assemble adds a part of a JSON payload and reports whether it is whole. s.mu is held.
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

// takeMessage queues a message that is whole. All its parts count against the window until it is taken.
func (s *Stream) takeMessage(f frame) error {
	lent, err := s.queueMessage(f)
	if err != nil || lent == 0 {
		return err
	}
	return s.grant(lent)
}

// queueMessage says what is to be granted for the message's next part.
func (s *Stream) queueMessage(f frame) (lent int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, nil // given up here while it was on its way
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

// takeWhole assembles an opening or a reply, of which a stream has one: neither counts against the window.
func (s *Stream) takeWhole(f frame) ([]byte, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.assemble(f)
}

func (s *Stream) takeOpen(f frame) error {
	whole, ok, err := s.takeWhole(f)
	if err != nil || !ok {
		return err
	}
	var o opening
	if err := json.Unmarshal(whole, &o); err != nil {
		return broken("an opening that cannot be read: %v", err)
	}
	go s.c.serve(s, o)
	return nil
}

func (s *Stream) takeReply(f frame) error {
	whole, ok, err := s.takeWhole(f)
	if err != nil || !ok {
		return err
	}
	var r reply
	if err := json.Unmarshal(whole, &r); err != nil {
		return broken("a reply that cannot be read: %v", err)
	}
	s.mu.Lock()
	s.answer = &r
	s.mu.Unlock()
	s.forget(io.EOF)
	return nil
}
