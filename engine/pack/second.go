package pack

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

// secondOpinion is the plan of engine/grow if it serves more pods, or as many and relaxes fewer minValues, or for less: awkward limits, minValues and offerings
// that are out now and then suit pods that come one by one.
func secondOpinion(s *model.Snapshot, policy model.Policy, plan model.Plan, shared *Places) model.Plan {
	if !doubtful(s, &plan) {
		return plan
	}
	policy.Solver, policy.Preferences = model.FirstFit, model.Ignore
	other := provision(s, policy, shared)
	if cmp.Or(cmp.Compare(waitOn(s, &other), waitOn(s, &plan)), cmp.Compare(len(other.Unplaced), len(plan.Unplaced)),
		cmp.Compare(relaxed(&other), relaxed(&plan)), cmp.Compare(other.Counts, plan.Counts)) >= 0 {
		return plan
	}
	if plan.Partial { // what nobody looked at is not refused
		return plan
	}
	other.LowerBound = min(plan.LowerBound, other.Counts)
	return other
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
func doubtful(s *model.Snapshot, plan *model.Plan) bool {
	most := opinionPlain
	if slices.ContainsFunc(s.Shapes, func(x model.Shape) bool {
		return len(x.Spread)+len(x.Affinity)+len(x.AntiAffinity)+len(x.HostPorts)+len(x.Volumes) > 0
	}) {
		most = opinionConstrained
	}
	pods := 0
	for i := range plan.Launches {
		pods += len(plan.Launches[i].Pods)
	}
	if pods+len(plan.Unplaced) > most {
		return false
	}
	const near = 1.005
	if float64(plan.Counts) > float64(plan.LowerBound)*near {
		return true
	}
	return slices.ContainsFunc(plan.Unplaced, func(u model.Unplaced) bool {
		switch u.Reason.Rule {
		case model.RuleUnmodelled, model.RuleBlocked, model.RulePriority, model.RuleNoPool, model.RulePoolNotReady, model.RuleTaint,
			model.RuleRequirement, model.RuleResource, model.RuleCapacity, model.RuleCatalog:
			return false
		}
		return true
	})
}
