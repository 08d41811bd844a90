package solve

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// A second opinion is asked for where it is cheap: up to so many pods that get machines, with and without constraints on other
// pods.
const (
	opinionPlain       = 1000
	opinionConstrained = 200
)

// secondOpinion is the plan of engine/solve/internal/firstfit if it serves more pods, or as many and relaxes fewer minValues, or for less: awkward limits, minValues and offerings
// that are out now and then suit pods that come one by one.
func secondOpinion(s *model.Snapshot, policy model.Policy, first *Draft, shared *Places) *Draft {
	p := first.from[0]
	if !p.doubtful() {
		return first
	}
	policy.Solver, policy.Preferences = model.FirstFit, model.Ignore
	second := provision(p.withHope(), policy, shared)
	second.Plan.Unplaced = append(second.Plan.Unplaced, p.withoutHope()...)
	second.Plan.Unplaced = sortedByPod(second.Plan.Unplaced, func(x *model.Unplaced) *model.PodKey { return &x.Pod })
	plan, other := &first.Plan, &second.Plan
	if cmp.Or(cmp.Compare(waitOn(s, other), waitOn(s, plan)), cmp.Compare(len(other.Unplaced), len(plan.Unplaced)),
		cmp.Compare(relaxed(other), relaxed(plan)), cmp.Compare(other.EffectivePrice, plan.EffectivePrice)) >= 0 {
		return first
	}
	if plan.Partial { // what nobody looked at is not refused
		return first
	}
	other.LowerBound = min(plan.LowerBound, other.EffectivePrice)
	p.groups = nil
	second.from = append(second.from, p)
	return second
}

// relaxed is how many machines do not keep their pool's minValues.
func relaxed(plan *model.Plan) int {
	n := 0
	for i := range plan.Launches {
		n += min(len(plan.Launches[i].Relaxed), 1)
	}
	return n
}

// waitOn is how many pods that somebody waits for get nothing: placeholders do not make up for them.
func waitOn(s *model.Snapshot, plan *model.Plan) int {
	if len(plan.Unplaced) == 0 {
		return 0
	}
	virtual := map[model.PodKey]bool{}
	for i := range s.Pending {
		if s.Pending[i].Virtual {
			virtual[s.Pending[i].PodKey] = true
		}
	}
	n := 0
	for _, u := range plan.Unplaced {
		if !virtual[u.Pod] {
			n++
		}
	}
	return n
}

// doubtful reports whether the plan may not be the best one can have, and is small enough for another.
func (p *problem) doubtful() bool {
	most := opinionPlain
	if slices.ContainsFunc(p.s.Shapes, func(x model.Shape) bool {
		return len(x.Spread)+len(x.Affinity)+len(x.AntiAffinity)+len(x.HostPorts)+len(x.Volumes) > 0
	}) {
		most = opinionConstrained
	}
	pods := 0
	for i := range p.plan.Launches {
		pods += len(p.plan.Launches[i].Pods)
	}
	left := p.groupsLeft()
	for _, g := range left {
		pods += g.left()
	}
	if pods > most {
		return false
	}
	const near = 1.005
	if float64(p.plan.EffectivePrice) > float64(p.plan.LowerBound)*near {
		return true
	}
	return slices.ContainsFunc(left, func(g *group) bool {
		switch p.nearest(g) {
		case model.RulePoolNotReady, model.RuleTaint, model.RuleRequirement, model.RuleResource, model.RuleCapacity, model.RuleCatalog:
			return false
		}
		return len(p.views) > 0
	})
}
