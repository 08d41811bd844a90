package guest

import (
	"testing"
	"time"

	"github.com/nodeless/nodeless/microvm/wire"
)

// The first rule that matches decides, then the container's own policy, then the pod's.
func TestWhetherAContainerRunsAgain(t *testing.T) {
	const always, onFailure, never = wire.RestartAlways, wire.RestartOnFailure, wire.RestartNever
	on3 := []wire.RestartRule{{Codes: []int{3}}, {Codes: []int{0, 1}, Except: true, All: true}}
	for _, c := range []struct {
		kind     wire.ContainerKind
		pod, own wire.RestartPolicy
		rules    []wire.RestartRule
		codes    string // of the exit codes 0, 1, 3 and 4: "-" ends, "r" runs again, "a" all do
	}{
		{wire.KindRegular, always, "", nil, "rrrr"},
		{wire.KindRegular, onFailure, "", nil, "-rrr"},
		{wire.KindRegular, never, "", nil, "----"},
		{wire.KindRegular, always, never, nil, "----"},
		{wire.KindRegular, never, onFailure, nil, "-rrr"},
		{wire.KindRegular, never, always, nil, "rrrr"},
		{wire.KindRegular, never, never, on3, "--ra"},
		{wire.KindRegular, never, onFailure, on3, "-rra"},
		{wire.KindInit, always, "", nil, "-rrr"},
		{wire.KindInit, always, never, nil, "----"},
		{wire.KindInit, never, onFailure, nil, "-rrr"},
		{wire.KindInit, never, never, on3, "--ra"},
		{wire.KindInit, never, never, []wire.RestartRule{{Codes: []int{0}}}, "----"},
		{wire.KindSidecar, never, always, on3, "rrra"},
		{wire.KindEphemeral, always, "", nil, "----"},
	} {
		spec := wire.Container{Name: "c", Kind: c.kind, RestartPolicy: c.own, RestartRules: c.rules}
		p := newPod(wire.Pod{RestartPolicy: c.pod, Containers: []wire.Container{spec}}, nil, nil)
		got := ""
		for _, code := range []int{0, 1, 3, 4} {
			again, all := p.containers[0].restarts(code)
			switch {
			case all:
				got += "a"
			case again:
				got += "r"
			default:
				got += "-"
			}
		}
		if got != c.codes {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// A container ends the round by its rule. All wait for the next round, in which they run again, and show how they ended.
// If the pod is stopped meanwhile they show that as their last state.
func TestARoundEnds(t *testing.T) {
	spec := wire.Pod{
		RestartPolicy: wire.RestartNever, Backoff: wire.Backoff{Initial: time.Hour, Max: time.Hour, Reset: time.Hour},
		Containers: []wire.Container{
			{Name: "init", Kind: wire.KindInit},
			{Name: "before", Kind: wire.KindRegular},
			{Name: "source", Kind: wire.KindRegular, RestartRules: []wire.RestartRule{{Codes: []int{42}, All: true}}},
		},
	}
	p := newPod(spec, nil, nil)
	p.began = time.Now()
	p.each(func(c *container) { c.over = p.over })
	p.containers[0].ended(wire.Exit{Reason: "Completed"}, false, 0)
	source := p.containers[2]
	if again := source.conclude(&wire.Exit{Code: 42}, false); again || !source.stopped() {
		t.Fatal("the round goes on")
	}
	source.ended(wire.Exit{Code: 42, Reason: "Error"}, false, 0)
	victim := wire.Exit{Code: 137, Signal: 9, Reason: "Error"}
	if again := p.containers[1].conclude(&victim, false); again || victim.Reason != wire.RestartingAll {
		t.Fatalf("%t, %+v", again, victim)
	}
	p.containers[1].ended(victim, false, 0)
	if !p.nextRound() { // the first follows without a pause
		t.Fatal("there is no next round")
	}
	for i, code := range []int{0, 137, 42} {
		s := p.containers[i].status
		if s.State != wire.Waiting || s.Reason != wire.RestartingAll || s.LastExit == nil || s.LastExit.Code != code || s.Ready {
			t.Errorf("%+v", s)
		}
	}
	p.each(func(c *container) { c.over = p.over })
	if source.stopped() {
		t.Error("the source cannot run again")
	}
	p.restartAll(source)
	p.beginStop(0)
	if p.nextRound() {
		t.Error("a pod that stops begins another round")
	}
	if s := source.status; s.State != wire.Terminated || s.Exit == nil || s.Exit.Code != 42 {
		t.Errorf("%+v", s)
	}
}

// A container that by its exit code would not run again, but does since it failed a probe, is not said to be terminated.
func TestAnEndThatIsNotTheLast(t *testing.T) {
	for code, want := range map[int]wire.State{0: wire.Waiting, 1: wire.Terminated} {
		spec := wire.Container{Name: "c", Kind: wire.KindRegular}
		c := newPod(wire.Pod{RestartPolicy: wire.RestartOnFailure, Containers: []wire.Container{spec}}, nil, nil).containers[0]
		c.ended(wire.Exit{Code: code}, true, 0)
		if s := c.status; s.State != want || previous(&s) == nil || previous(&s).Code != code {
			t.Errorf("after %d: %+v", code, s)
		}
	}
}
