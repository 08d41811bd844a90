package solve

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// The fallback is tried where it is cheap: up to so many pods that get nodes, with and without constraints on other
// pods.
const (
	fallbackPods            = 1000
	fallbackPodsConstrained = 200
)

// fallback returns the plan of firstfit alone if it serves more pods, or as many while it relaxes fewer minValues or
// costs less. Placing pods one by one copes better with awkward limits, minValues and scattered offerings.
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
		cmp.Compare(realUnplaced(s, other), realUnplaced(s, plan)), cmp.Compare(len(other.Unplaced), len(plan.Unplaced)),
		cmp.Compare(relaxedLaunches(other), relaxedLaunches(plan)),
		cmp.Compare(other.EffectivePrice, plan.EffectivePrice)) < 0
	if !better || plan.Partial { // what a cut search did not look at is not refused
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

// realUnplaced returns the number of pods without a place, not counting placeholders.
func realUnplaced(s *model.Snapshot, plan *model.Plan) int {
	if len(plan.Unplaced) == 0 {
		return 0
	}
	n, virtual := 0, s.Placeholders()
	for _, u := range plan.Unplaced {
		if !virtual[u.Pod] {
			n++
		}
	}
	return n
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
