package engine_test

import (
	"reflect"
	"testing"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
)

// The extra work for a hopeless pod does not depend on the number of pools. Allocations are the measure of work.
func TestHopelessPodsCostLittle(t *testing.T) {
	extra := func(pools int) float64 {
		x := engine.NewProvisioner()
		work := func(s *model.Snapshot) float64 {
			return testing.AllocsPerRun(1, func() { x.Decide(s, model.Policy{}) })
		}
		return work(hopeless(pools, 200)) - work(hopeless(pools, 0))
	}
	few, many := extra(5), extra(40)
	if many > 2*few {
		t.Errorf("200 hopeless pods cost %.0f allocations with 5 pools and %.0f with 40", few, many)
	}
}

// The plan for the pod that can have a node is the same with and without hopeless pods.
func TestHopelessPodsChangeNoPlan(t *testing.T) {
	alone, with := engine.Provision(hopeless(3, 0), model.Policy{}), engine.Provision(hopeless(3, 40), model.Policy{})
	if !reflect.DeepEqual(alone.Launches, with.Launches) || alone.LowerBound != with.LowerBound {
		t.Errorf("alone %+v, at least %v; beside hopeless pods %+v, at least %v", alone.Launches, alone.LowerBound,
			with.Launches, with.LowerBound)
	}
	if len(with.Unplaced) != 40 {
		t.Errorf("%d of 40 hopeless pods got nothing", len(with.Unplaced))
	}
}

// Explanations are made in pieces, each once, until a pool changes.
func TestReasonsAreCached(t *testing.T) {
	s := hopeless(3, 40)
	want := engine.Provision(s, model.Policy{})
	x := engine.NewProvisioner()
	turn := func(s *model.Snapshot, most int) (plan model.Plan, worked bool) {
		plan = x.Decide(s, model.Policy{})
		x.Explain(&plan, func(verdicts int) bool { worked = true; return verdicts < most })
		return plan, worked
	}
	explained := func(p model.Plan) (n int) {
		for i, u := range p.Unplaced {
			if u.Reason.Rule == model.RuleUnexplained {
				continue
			}
			n++
			u.Reason.Change, want.Unplaced[i].Reason.Change = model.Change{}, model.Change{} // searched for some pods only
			if !reflect.DeepEqual(u, want.Unplaced[i]) {
				t.Fatalf("%+v, by Provision %+v", u, want.Unplaced[i])
			}
		}
		return n
	}
	for i, n := range []int{10, 20, 30, 40} {
		if plan, _ := turn(s, 30); explained(plan) != n {
			t.Errorf("after %d turns of 30 verdicts of 3 pools %d pods know why, want %d", i+1, explained(plan), n)
		}
	}
	if plan, worked := turn(s, 30); worked || explained(plan) != 40 {
		t.Errorf("nothing has changed, and it was explained again: %d pods know why", explained(plan))
	}
	other := *s
	other.Pools = append([]model.Pool{}, s.Pools...)
	other.Pools[1].NotReady = "its class is gone"
	plan, worked := turn(&other, 30)
	stale, fresh := 0, 0
	for _, u := range plan.Unplaced {
		if u.Reason.Pools[1].Rule == model.RulePoolNotReady {
			fresh++
		} else {
			stale++
		}
	}
	if !worked || fresh != 10 || stale != 30 {
		t.Errorf("a pool has changed: %d Reasons know it and %d are those from before, want 10 and 30", fresh, stale)
	}
}
