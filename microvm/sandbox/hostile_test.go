package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodeless/nodeless/microvm/wire"
)

// talking returns a VM of two containers with a session to a guest that answers as it likes.
func talking(t *testing.T, serve wire.Handler) session {
	t.Helper()
	a, b := net.Pipe()
	go func() { _ = wire.ServeGuest(b, serve) }()
	conn, err := wire.Dial(a, false)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = conn.Serve() }()
	t.Cleanup(func() { _ = conn.Close() })
	vm := newVM(&Host{}, t.TempDir(), vmRecord{ID: "hostile", Containers: []string{"main", "side"}})
	vm.setConn(conn)
	return session{vm, conn}
}

// A host keeps and compares what it hears of each container, so a guest must not invent any.
func TestOnlyThePodsContainersAreMeasured(t *testing.T) {
	invented := strings.Repeat("{},", 300_000)
	s := talking(t, func(*wire.Stream, string, json.RawMessage) (any, error) {
		return json.RawMessage(`{"UnixNano": 1, "Containers": [` + invented +
			`{"Name": "side", "CPUNanos": 1}, {"Name": "side", "CPUNanos": 2}, {"Name": "main", "CPUNanos": 3}]}`), nil
	})
	got, err := s.vm.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if said := fmt.Sprint(len(got.Containers), cap(got.Containers) < 10); said != "2 true" ||
		got.Containers[0].CPUNanos != 1 || got.Containers[1].CPUNanos != 3 {
		t.Errorf("%s, the first is %+v", said, got.Containers[0])
	}
}

// A pod's status is written to the API server, which takes no giant one.
func TestAStatusIsLimited(t *testing.T) {
	long := strings.Repeat("\u00e9", 450_000) // of two bytes each
	exit := &wire.Exit{Reason: long[:10_000], Message: long[:10_001]}
	update := wire.Update{
		Status: wire.PodStatus{Failure: long[:10_000], Containers: []wire.ContainerStatus{
			{
				Name: "main", Reason: long[:10_000], Message: "x" + long, Exit: exit, LastExit: exit,
				User: &wire.User{Groups: make([]int64, 10_000)},
			},
			{Name: "main", Message: "again"},
			{Name: "other"},
			{Name: "side"},
		}},
		Events: []wire.Event{
			{Container: "main", Reason: long[:10_000], Message: long[:10_000]}, {Container: long[:10_000]}, {Reason: "OfThePod"},
		},
	}
	s := talking(t, func(s *wire.Stream, _ string, _ json.RawMessage) (any, error) {
		return nil, errors.Join(s.SendMessage(update), errors.New(long))
	})
	err := s.followStatus() // until the guest's reply
	if err == nil {
		t.Fatal("it has not ended")
	}
	got, _ := s.vm.Status()
	c := got.Pod.Containers
	if len(c) != 2 || c[0].Name != "main" || c[1].Name != "side" {
		t.Fatalf("%d containers", len(c))
	}
	if n := len(c[0].User.Groups); n != 1024 {
		t.Errorf("its user has %d groups", n)
	}
	for what, text := range map[string]string{
		"a reason": c[0].Reason, "an exit's reason": c[0].Exit.Reason, "a last exit's reason": c[0].LastExit.Reason,
	} {
		if len(text) != 128 {
			t.Errorf("%s has %d bytes", what, len(text))
		}
	}
	events := s.vm.TakeEvents()
	if len(events) != 2 || events[1].Reason != "OfThePod" || len(events[0].Reason) != 128 {
		t.Fatalf("%d events", len(events))
	}
	for what, text := range map[string]string{
		"a message": c[0].Message, "an exit's message": c[0].Exit.Message, "a last exit's message": c[0].LastExit.Message,
		"the failure": got.Pod.Failure, "the VM's failure": got.Failure, "an event": events[0].Message,
	} {
		if len(text) > 4096 || len(text) < 4095 || strings.ToValidUTF8(text, "") != text {
			t.Errorf("%s has %d bytes", what, len(text))
		}
	}
	if err := s.vm.Flush(t.Context()); err == nil || len(err.Error()) > 4200 {
		t.Errorf("an error: %.200v", err)
	}
}

// A guest that boots again has no pod any more, and does not get it twice.
func TestAGuestBootsTwice(t *testing.T) {
	s := talking(t, func(_ *wire.Stream, kind string, _ json.RawMessage) (any, error) {
		if kind != wire.KindHello {
			t.Errorf("it is sent %s", kind)
		}
		return wire.Hello{}, nil
	})
	s.vm.host.config.HangLimit = patience
	if err := s.introduce(t.Context()); err == nil || err.Error() != "the guest has lost its pod: it has booted again" {
		t.Errorf("got %v", err)
	}
}

// What a guest says of itself may become why its VM has ended.
func TestAFailureIsLimited(t *testing.T) {
	s := talking(t, func(*wire.Stream, string, json.RawMessage) (any, error) {
		return wire.Hello{ID: strings.Repeat("x", 500_000)}, nil
	})
	s.vm.host.config.HangLimit = patience
	err := s.introduce(t.Context())
	if err == nil {
		t.Fatal("it is taken for another pod's guest")
	}
	s.vm.end(err.Error())
	if got, _ := s.vm.Status(); !strings.Contains(got.Failure, "the guest says it runs pod") || len(got.Failure) > 4096 {
		t.Errorf("%d bytes: %.200s", len(got.Failure), got.Failure)
	}
}

// Of a flood of events a host keeps the latest, and not the memory of the others.
func TestAFloodOfEventsIsNotKept(t *testing.T) {
	flood := json.RawMessage(`{"Status": {}, "Events": [` + strings.Repeat("{},", 100_000) + `{"Reason": "last"}]}`)
	s := talking(t, func(s *wire.Stream, _ string, _ json.RawMessage) (any, error) {
		for range 20 {
			if err := s.SendMessage(flood); err != nil {
				return nil, err
			}
		}
		return nil, errors.New("that was all")
	})
	if err := s.followStatus(); err == nil {
		t.Error("the guest goes on")
	}
	got := s.vm.TakeEvents()
	if len(got) != maxEvents || cap(got) > 2*maxEvents || got[len(got)-1].Reason != "last" {
		t.Errorf("%d events of %d, the last is %+v", len(got), cap(got), got[len(got)-1])
	}
}

// A guest that changes its status all the time keeps its host busy only every 50 ms, and the host still learns the newest
// status soon: those that have come since the last pause count as one.
func TestUpdatesAreTakenAtALimitedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			updates = 10_000
			takes   = updateBurst + updates/maxUpdates
		)
		s := talking(t, func(s *wire.Stream, _ string, _ json.RawMessage) (any, error) {
			for i := range updates {
				u := wire.Update{Status: wire.PodStatus{Containers: []wire.ContainerStatus{{Name: "main", Restarts: i}}}}
				if i%(updates/10) == 0 {
					u.Events = []wire.Event{{Container: "main", Reason: fmt.Sprint(i / (updates / 10))}}
				}
				if err := s.SendMessage(u); err != nil {
					return nil, err
				}
			}
			return nil, errors.New("that was all")
		})
		began := time.Now()
		err := s.followStatus()
		if took := time.Since(began); took < (takes/2-updateBurst)*updatePause || took > 2*takes*updatePause {
			t.Errorf("%d updates were taken in %s (%v)", updates, took, err)
		}
		if got, _ := s.vm.Status(); len(got.Pod.Containers) != 1 || got.Pod.Containers[0].Restarts != updates-1 {
			t.Errorf("the last update is lost: %+v", got.Pod)
		}
		said := ""
		for _, e := range s.vm.TakeEvents() {
			said += e.Reason
		}
		if said != "0123456789" {
			t.Errorf("the events are %s", said)
		}
	})
}
