package wire

import (
	"encoding/json"
	"io"
)

// frameCost is what a frame costs of a stream's window beside its bytes, so that the window bounds the number of items too.
const frameCost = 64

// push queues what arrived, within the bounds that the sender has to keep.
func (s *Stream) push(it Item, bytes int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil // given up here while it was on its way
	}
	it.cost = bytes + frameCost
	if s.held += it.cost; s.held > Window {
		return broken("more than %d bytes on a stream before they are taken", Window)
	}
	s.queue = append(s.queue, it)
	s.changed.Broadcast()
	return nil
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
	return s.push(Item{Channel: f.payload[0], Data: f.payload[1:], End: f.kind == frameEnd}, len(f.payload)-1)
}

// assemble adds a part of a JSON payload and reports whether it is whole.
func (s *Stream) assemble(f frame) ([]byte, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.partial)+len(f.payload) > s.c.maxMsg {
		return nil, false, broken("a message of more than %d bytes", s.c.maxMsg)
	}
	if f.flags&flagMore != 0 {
		if len(f.payload) == 0 {
			return nil, false, broken("an empty part of a message")
		}
		s.partial = append(s.partial, f.payload...)
		return nil, false, nil
	}
	whole := append(s.partial, f.payload...)
	s.partial = nil
	if !json.Valid(whole) {
		return nil, false, broken("a message that is not JSON")
	}
	return whole, true, nil
}

// takeMessage queues a message that is whole. Parts are bounded by the message's size, so that they go back to the sender's window at once.
func (s *Stream) takeMessage(f frame) error {
	whole, ok, err := s.assemble(f)
	if err != nil {
		return err
	}
	if !ok {
		return s.grant(len(f.payload) + frameCost)
	}
	return s.push(Item{Message: whole}, len(f.payload))
}

func (s *Stream) takeOpen(f frame) error {
	whole, ok, err := s.assemble(f)
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
	whole, ok, err := s.assemble(f)
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
