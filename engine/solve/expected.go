package solve

import (
	"math"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// withExpectedPeers returns the cluster with those expected pods pending whose shape a pending pod has, so that nodes
// are sized for all pods of a workload even if its controller creates them one after another. While any pod is pending,
// so are those known from a template, since workloads that are created together should share nodes; but not if where a
// pod may run depends on other pods, some of which might be on launches that dropForTemplates drops. Expected pods get
// what pending pods leave, and those known from a template what other expected pods leave: they are Virtual, and less
// important than any other pod. Those below the policy's cutoff are left out.
func withExpectedPeers(s *model.Snapshot, policy *model.Policy) *model.Snapshot {
	dependent := func(shape int) bool {
		return shape < 0 || shape >= len(s.Shapes) || dependsOnPods(&s.Shapes[shape])
	}
	waits, free := map[int]bool{}, true
	for i := range s.Pending {
		p := &s.Pending[i]
		if free = free && !dependent(p.Shape); p.From == "" && !p.Virtual {
			waits[p.Shape] = true
		}
	}
	var peers []model.Pod
	for _, p := range s.Expected {
		planned, priority := waits[p.Shape], int32(math.MinInt32+1)
		if p.FromTemplate {
			planned, priority = free && len(waits) > 0 && !dependent(p.Shape), math.MinInt32
		}
		if planned && !(policy.HasPriorityCutoff && p.Priority < policy.PriorityCutoff) {
			p.Virtual, p.Expected, p.Priority = true, true, priority
			peers = append(peers, p)
		}
	}
	if len(peers) == 0 {
		return s
	}
	out := *s
	out.Pending = slices.Concat(s.Pending, peers)
	model.SortPending(out.Pending)
	return &out
}

// dropForTemplates drops launches whose pods are all known from templates alone. What is left has no known bound.
func (d *Draft) dropForTemplates(s *model.Snapshot, policy *model.Policy) {
	uncertain := s.FromTemplates()
	plan, before := &d.Plan, len(d.Plan.Launches)
	plan.Launches = slices.DeleteFunc(plan.Launches, func(l model.Launch) bool {
		drop := len(l.Pods) > 0 && !slices.ContainsFunc(l.Pods, func(p model.PodKey) bool { return !uncertain[p] })
		if drop {
			plan.EffectivePrice -= policy.Effective(l.Chosen.Price)
		}
		return drop
	})
	if len(plan.Launches) < before {
		plan.LowerBound = 0
	}
}

// forgetExpected drops the unplaced expected pods: nobody needs their Reasons.
func (d *Draft) forgetExpected(s *model.Snapshot) {
	for _, p := range d.from {
		for _, g := range slices.Concat(p.groups, p.infeasible) {
			g.pods = slices.DeleteFunc(g.pods, func(i int) bool { return p.s.Pending[i].Expected })
		}
	}
	expected := map[model.PodKey]bool{}
	for i := range s.Expected {
		expected[s.Expected[i].PodKey] = true
	}
	d.Plan.Unplaced = slices.DeleteFunc(d.Plan.Unplaced, func(u model.Unplaced) bool { return expected[u.Pod] })
}
