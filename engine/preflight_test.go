package engine_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/gen"
)

// unaddressed gives a third of a random cluster's types too few addresses; in every other cluster the VPC CNI rolls
// out, so that pods should not be moved.
func unaddressed(s *model.Snapshot, seed uint64) *model.Snapshot {
	r := rand.New(rand.NewPCG(seed, 9))
	out := *s
	out.Pools = slices.Clone(s.Pools)
	for i := range out.Pools {
		out.Pools[i].Types = slices.Clone(out.Pools[i].Types)
		for k := range out.Pools[i].Types {
			if r.IntN(3) == 0 {
				out.Pools[i].Types[k].Unaddressed = 1 + r.Int64N(90)
			}
		}
	}
	if seed%2 == 0 {
		out.Unsettled = "the VPC CNI rolls"
	}
	return &out
}

// Under an enforced preflight no plan launches nodes with too few addresses or moves pods that should not be moved,
// as check.Plan verifies. Pods and nodes that wait have that as their reason, and other decisions continue.
func TestAnEnforcedPreflightIsKept(t *testing.T) {
	refused, held, launched, commands := 0, 0, 0, 0
	for seed := range uint64(900) {
		s, policy := unaddressed(gen.Random(seed), seed), model.Policy{Preflight: model.Enforce}
		if seed%3 == 0 {
			s, policy = unaddressed(gen.Disruptive(seed), seed), gen.DisruptionPolicy(seed)
			policy.Preflight = model.Enforce
		}
		judge(t, seed, s, policy)
		if t.Failed() {
			return
		}
		provision, disrupt := engine.Provision(s, policy), engine.Disrupt(s, policy)
		launched, commands = launched+len(provision.Launches), commands+len(disrupt.Commands)
		for _, u := range provision.Unplaced {
			if slices.ContainsFunc(u.Reason.Pools, func(v model.PoolVerdict) bool { return v.Rule == model.RulePreflight }) {
				refused++
			}
		}
		for _, k := range disrupt.Kept {
			if k.Reason.Rule == model.RulePreflight {
				held++
			}
		}
	}
	t.Logf("%d pods and %d nodes wait, %d launches, %d commands", refused, held, launched, commands)
	if refused < 30 || held < 30 || launched < 300 || commands < 15 {
		t.Errorf("%d pods and %d nodes wait, %d launches, %d commands: too few to tell", refused, held, launched, commands)
	}
}
