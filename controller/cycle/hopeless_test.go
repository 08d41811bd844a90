package cycle

import (
	"fmt"
	"testing"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
)

// hopeless returns a cluster of pools of three types, in which one pod can have a node and the given number of others,
// each of a shape of its own, cannot.
func hopeless(pools, pods int) *model.Snapshot {
	s := &model.Snapshot{Now: noon}
	var types []model.InstanceType
	for i, cpu := range []int64{2000, 4000, 8000} {
		size := model.Resources{model.CPU: cpu, model.Memory: cpu << 21, model.Pods: 30}
		name := fmt.Sprint("t", i)
		types = append(types, model.InstanceType{
			Name: name, Capacity: size, Allocatable: size,
			Requirements: model.NewRequirements(model.OneOf(model.LabelInstanceType, name),
				model.OneOf(model.LabelArch, "amd64"), model.OneOf(model.LabelOS, "linux"), model.OneOf(model.LabelZone, "a")),
			Offerings: []model.Offering{{
				Zone: "a", CapacityType: model.OnDemand, Price: model.Price(cpu) * 50, Available: true,
			}},
		})
	}
	for i := range pools {
		s.Pools = append(s.Pools, model.Pool{
			Name: fmt.Sprintf("pool-%04d", i), Types: types,
			Requirements: model.NewRequirements(model.OneOf("example.com/team", fmt.Sprint(i))),
		})
	}
	wait := func(name string, shape model.Shape) {
		s.Shapes = append(s.Shapes, shape)
		s.Pending = append(s.Pending, model.Pod{
			PodKey: model.PodKey{Namespace: "default", Name: name, UID: name}, Shape: len(s.Shapes) - 1,
		})
	}
	for i := range pods {
		shape := model.Shape{Requests: model.Resources{model.CPU: 1000 + int64(i), model.Pods: 1}}
		switch i % 4 {
		case 0:
			shape.Required = model.NewRequirements(model.OneOf("example.com/disk", fmt.Sprint("disk-", i)))
		case 1:
			shape.Required = model.NewRequirements(model.OneOf(model.LabelInstanceType, fmt.Sprint("x", i)))
		case 2:
			shape.Requests[model.CPU] = 1_000_000 + int64(i)
		case 3:
			shape.Required = model.NewRequirements(model.OneOf(model.LabelZone, fmt.Sprint("zone-", i)))
		}
		wait(fmt.Sprintf("hopeless-%05d", i), shape)
	}
	wait("good", model.Shape{Requests: model.Resources{model.CPU: 1000, model.Pods: 1}})
	return model.Canonical(s)
}

// Among thousands of pods that no pool can serve, each of another shape, the one that can have a node gets its launch
// in the first cycle, before a single verdict of a pool on a hopeless pod. Then a cycle makes a bounded number of
// verdicts: fewer once something has changed, so that the next pod does not wait for them either. What is kept of them
// is bounded, too.
func TestHopelessPodsDoNotHoldUpALaunch(t *testing.T) {
	const pools, pods, keptVerdicts = 1000, 5_000, 20
	s, x := newStage(), engine.NewProvisioner()
	s.given, s.changed = hopeless(pools, pods), make(chan struct{}, 1)
	type piece struct{ verdicts, applied int }
	var pieces []piece
	turns := begin(t, s, Options{Provision: x.Decide, Explain: func(plan *model.Plan, goOn func(int) bool) {
		p := piece{applied: len(s.applied)}
		if len(pieces) == 1 {
			s.changed <- struct{}{} // a pod comes
		}
		x.Explain(plan, func(verdicts int) bool { p.verdicts = verdicts; return goOn(verdicts) })
		pieces = append(pieces, p)
	}})
	explained := 0
	for i, most := range []int{maxVerdicts, minVerdicts} {
		if i > 0 {
			s.wakesAt(t, resync)
			s.Advance(resync)
		}
		d := await(t, turns)
		if len(d.Plan.Launches) != 1 || len(d.Plan.Launches[0].Pods) != 1 || d.Plan.Launches[0].Pods[0].Name != "good" {
			t.Fatalf("cycle %d launches %+v", i, d.Plan.Launches)
		}
		if p := pieces[i]; p.applied != i+1 || p.verdicts < most || p.verdicts >= most+pools {
			t.Errorf("cycle %d: %d plans were applied before its explanation of %d verdicts, want %d and about %d", i, p.applied,
				p.verdicts, i+1, most)
		}
		before := explained
		explained = 0
		for _, u := range d.Plan.Unplaced {
			if u.Reason.Rule != model.RuleUnexplained {
				explained++
			}
			if len(u.Reason.Pools) > keptVerdicts {
				t.Fatalf("of %s %d verdicts are kept", u.Pod.Name, len(u.Reason.Pools))
			}
		}
		if want := before + (most+pools-1)/pools; explained != want {
			t.Errorf("after cycle %d %d pods know why, want %d", i, explained, want)
		}
	}
}
