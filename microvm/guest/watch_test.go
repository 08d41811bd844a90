package guest

import (
	"encoding/json"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/microvm/wire"
)

// While no host process ran, every probe failed with as much output as is kept, in bytes that are long in JSON. The
// host receives all of it, in messages that it accepts.
func TestAllEventsAreSent(t *testing.T) {
	p := newPod(wire.Pod{ID: "one"}, nil, nil)
	for i := range maxEvents {
		p.event(wire.Event{
			Container: string(rune('a' + i%26)), Warning: true, Reason: "Unhealthy",
			Message: strings.Repeat("\x01", maxProbeOutput),
		})
	}
	want := slices.Clone(p.events)
	a, b := net.Pipe()
	go func() {
		_ = wire.ServeGuest(b, func(s *wire.Stream, _ string, _ json.RawMessage) (any, error) { return nil, p.watch(s) })
	}()
	host, err := wire.Dial(a, false)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = host.Serve() }()
	defer func() { _ = host.Close() }()
	s, err := host.Open(wire.KindWatch, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []wire.Event
	for len(got) < len(want) {
		it, err := s.Receive()
		if err != nil {
			t.Fatalf("after %d of %d events: %v", len(got), len(want), err)
		}
		u, err := wire.Message[wire.Update](it)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, u.Events...)
	}
	if !slices.Equal(got, want) {
		t.Error("the events are others, or in another order")
	}
}
