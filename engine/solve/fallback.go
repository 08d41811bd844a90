package solve

import (
	"cmp"
	"maps"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// The fallback is tried for at most this many pods, waiting or with a planned node: without and with constraints on
// other pods.
const (
	fallbackPods            = 1000
	fallbackPodsConstrained = 200
)

// fallback returns the plan of firstfit alone if it serves more important or more pods, or as many and relaxes fewer
// minValues or costs less. Placing pods one by one copes better with awkward limits, minValues and scattered offerings.
func fallback(s *model.Snapshot, policy model.Policy, first *Draft, c *Cluster) *Draft {
	p := first.from[0]
	if !p.doubtful() {
		return first
	}
	policy.Solver, policy.Preferences = model.FirstFit, model.Ignore
	second := provision(p.withoutInfeasible(), policy, c)
	second.Plan.Unplaced = append(second.Plan.Unplaced, p.infeasiblePods()...)
	second.Plan.Unplaced = sortedByPod(second.Plan.Unplaced, func(x *model.Unplaced) *model.PodKey { return &x.Pod })
	plan, other := &first.Plan, &second.Plan
	better := cmp.Or(
		compareUnplaced(s, other, plan), cmp.Compare(len(other.Unplaced), len(plan.Unplaced)),
		cmp.Compare(relaxedLaunches(other), relaxedLaunches(plan)),
		cmp.Compare(other.EffectivePrice, plan.EffectivePrice)) < 0
	if !better || plan.Partial { // pods that an interrupted search did not reach are not refused
		return first
	}
	other.LowerBound = min(plan.LowerBound, other.EffectivePrice)
	p.groups = nil
	second.from = append(second.from, p)
	return second
}

// relaxedLaunches returns how many launches do not keep their pool's minValues.
func relaxedLaunches(plan *model.Plan) int {
	n := 0
	for i := range plan.Launches {
		n += min(len(plan.Launches[i].Relaxed), 1)
	}
	return n
}

// compareUnplaced compares the real pods that two plans leave unplaced, not counting placeholders: their numbers at the
// highest priority at which these differ.
func compareUnplaced(s *model.Snapshot, a, b *model.Plan) int {
	if len(a.Unplaced)+len(b.Unplaced) == 0 {
		return 0
	}
	more := map[model.PodKey]int{}
	for _, u := range a.Unplaced {
		more[u.Pod]++
	}
	for _, u := range b.Unplaced {
		more[u.Pod]--
	}
	byPriority := map[int32]int{}
	for i := range s.Pending {
		if p := &s.Pending[i]; !p.Virtual {
			byPriority[p.Priority] += more[p.PodKey]
		}
	}
	for _, priority := range slices.Backward(slices.Sorted(maps.Keys(byPriority))) {
		if n := byPriority[priority]; n != 0 {
			return n
		}
	}
	return 0
}

// doubtful reports whether the plan is not proven to be good, and small enough for a second solve.
func (p *problem) doubtful() bool {
	limit := fallbackPods
	if slices.ContainsFunc(p.s.Shapes, func(x model.Shape) bool {
		return len(x.Spread)+len(x.Affinity)+len(x.AntiAffinity)+len(x.HostPorts)+len(x.Volumes) > 0
	}) {
		limit = fallbackPodsConstrained
	}
	pods := 0
	for i := range p.plan.Launches {
		pods += len(p.plan.Launches[i].Pods)
	}
	waiting := p.waiting()
	for _, g := range waiting {
		pods += g.left()
	}
	if pods > limit {
		return false
	}
	const smallGap = 1.005
	if float64(p.plan.EffectivePrice) > float64(p.plan.LowerBound)*smallGap {
		return true
	}
	return slices.ContainsFunc(waiting, func(g *group) bool {
		switch (explainer{p}).nearestRule(g) {
		case model.RulePoolNotReady, model.RuleTaint, model.RuleRequirement, model.RuleResource, model.RuleZonalShift,
			model.RuleCapacity, model.RulePreflight, model.RuleAddresses, model.RuleCatalog:
			return false
		}
		return len(p.views) > 0
	})
}
