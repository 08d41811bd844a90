package sim

import (
	"time"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/check"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/sim/compatible"
)

// Nodeless decides as the controller does; with Nominates set as it does with the feature gate Nominations.
func Nodeless(policy model.Policy) Decider {
	var at *model.Snapshot
	var search *engine.Search
	return Decider{
		Name:      "nodeless",
		Provision: func(s *model.Snapshot) model.Plan { return engine.Provision(s, policy) },
		Disrupt: func(s *model.Snapshot, after model.Cursor) model.Plan {
			if s != at { // else it is another piece of the same
				at, search = s, engine.NewSearch(s, policy)
			}
			return search.From(after)
		},
		StillTrue: func(s *model.Snapshot, c model.Command) model.Reason { return engine.StillTrue(s, policy, c) },
		// controller/cycle, controller/cluster
		BatchIdle: 60 * time.Millisecond, BatchMax: 300 * time.Millisecond, Nominated: 10 * time.Second,
		Judge: func(s *model.Snapshot, plan model.Plan, answered bool) []string {
			found := check.Plan(s, policy, plan)
			if answered {
				found = append(found, check.Answered(s, plan)...)
			}
			var out []string
			for _, v := range found {
				if !v.Unproven {
					out = append(out, v.Error())
				}
			}
			return out
		},
	}
}

// Compatible decides as Karpenter does. Pods are gathered until none came for 1 s, at most for 10 s, and a machine
// stays nominated for 20 s (reference karpenter.md §8). What Karpenter loses by waiting 15 s for each validation is
// not modelled: a baseline that is better than the original is the harder one.
func Compatible() Decider {
	return Decider{
		Name:      "compatible",
		Provision: compatible.Provision,
		Disrupt:   func(s *model.Snapshot, _ model.Cursor) model.Plan { return compatible.Disrupt(s) },
		BatchIdle: time.Second, BatchMax: 10 * time.Second, Nominated: 20 * time.Second,
	}
}
