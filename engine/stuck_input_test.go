package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
)

// A price that falls to a tenth moves each pod once; when it rises again, no pod moves: a node counts at the price at
// which it was launched.
func TestPriceJumpsMoveNoPodTwice(t *testing.T) {
	s, policy := clusterOf(t, `
type m8 cpu=8 memory=32Gi pods=60 offers(a on-demand 0.4)
type c8 cpu=8 memory=32Gi pods=60 offers(a on-demand 0.5)
pool general disrupt(underused=9, empty=9)
shape web cpu=3
node n1 pool=general type=m8 zone=a capacity-type=on-demand price=0.4 ready=5h runs(web-1 as web age=5h, web-2 as web age=5h)
node n2 pool=general type=m8 zone=a capacity-type=on-demand price=0.4 ready=5h runs(web-3 as web age=5h, web-4 as web age=5h)`)
	c := until(t, s, policy, asPlanned(t))
	if c.rounds != 0 {
		t.Fatalf("%d rounds before any price jumped", c.rounds)
	}
	total := 0
	for jump := range 6 {
		price := []model.Price{50_000, 500_000}[jump%2]
		next := *c.end
		next.Pools = slices.Clone(next.Pools)
		next.Pools[0].Types = slices.Clone(next.Pools[0].Types)
		at := slices.IndexFunc(next.Pools[0].Types, func(t model.InstanceType) bool { return t.Name == "c8" })
		next.Pools[0].Types[at].Offerings = []model.Offering{{
			Zone: "a", CapacityType: model.OnDemand, Price: price,
			Available: true,
		}}
		c = until(t, &next, policy, asPlanned(t))
		total += c.moves
	}
	if total != 4 {
		t.Errorf("%d moves of 4 pods in six jumps of a price, want one each", total)
	}
}

// If a pool is deleted while one of its commands is in progress, the command is undone.
func TestCommandEndsWithItsPool(t *testing.T) {
	s, policy := clusterOf(t, `
type m8 cpu=8 memory=32Gi pods=60 offers(a on-demand 0.4)
type m2 cpu=2 memory=8Gi pods=60 offers(a on-demand 0.1)
pool general disrupt(underused=9)
shape web cpu=1
node n1 pool=general type=m8 zone=a capacity-type=on-demand price=0.4 ready=5h runs(web-1 as web age=5h)`)
	plan := engine.Disrupt(s, policy)
	if len(plan.Commands) != 1 || len(plan.Commands[0].Launches) != 1 {
		t.Fatalf("want one command with a replacement: %+v", plan.Commands)
	}
	without := *s
	without.Pools = nil
	if got := engine.StillTrue(&without, policy, plan.Commands[0]); got.Rule != model.RuleNoPool ||
		got.Object != "general" {
		t.Errorf("the pool is gone: %+v", got)
	}
	if again := engine.Disrupt(&without, policy); len(again.Commands)+len(again.Removals) > 0 ||
		len(again.Kept) != 1 || again.Kept[0].Reason.Rule != model.RuleNoPool ||
		reason.Kept(again.Kept[0]) != "n1 is kept: NodePool general no longer exists" {
		t.Errorf("nothing of a pool that is gone is disrupted: %+v", again)
	}
}

// Constraints that protect every node keep protecting it for a day, and Kept has the reason.
func TestProtectedPodsKeepTheirNodes(t *testing.T) {
	const types = `
type m8 cpu=8 memory=32Gi pods=60 offers(a on-demand 0.4)
type m2 cpu=2 memory=8Gi pods=60 offers(a on-demand 0.1)
shape web cpu=1
`
	for name, c := range map[string]struct {
		cluster string
		want    model.Rule
		says    string // the reason why the node is kept
	}{
		"one budget allows nine, another none: the least counts": {
			`pool general disrupt(underused=0, empty=9, drifted=9)
node n1 pool=general type=m8 zone=a capacity-type=on-demand price=0.4 ready=5h runs(web-1 as web age=5h)`, model.RuleBudget,
			"the disruption budget of pool general allows 0 now",
		},
		"a PodDisruptionBudget that never allows": {
			`pool general disrupt(underused=9)
node n1 pool=general type=m8 zone=a capacity-type=on-demand price=0.4 ready=5h
     runs(web-1 as web age=5h held="PodDisruptionBudget default/web allows no eviction")`, model.RuleEvictionBlocked,
			"pod default/web-1 cannot be evicted now: PodDisruptionBudget default/web allows no eviction",
		},
		"a pod that no offering can hold": {
			`pool general disrupt(underused=9)
shape big cpu=64
node n1 pool=general type=m8 zone=a capacity-type=on-demand price=0.4 ready=5h runs(big-1 as big age=5h, web-1 as web age=5h)`, model.RuleNoPlace,
			"pod default/big-1 fits nowhere else: ",
		},
		"a pod that must not be disrupted": {
			`pool general disrupt(underused=9)
node n1 pool=general type=m8 zone=a capacity-type=on-demand price=0.4 ready=5h runs(web-1 as web age=5h do-not-disrupt)`, model.RuleDoNotDisrupt,
			"pod default/web-1 must not be disrupted (karpenter.sh/do-not-disrupt)",
		},
		"nothing that the pool allows has a price": {
			`type x2 cpu=2 memory=8Gi pods=60
pool general types(x2) disrupt(underused=9)
node n1 pool=general type=m8 zone=a capacity-type=on-demand price=0.4 ready=5h runs(web-1 as web age=5h)`, model.RuleNoPlace,
			"pod default/web-1 fits nowhere else: ",
		},
		"a machine whose price is missing": {
			`pool general disrupt(underused=9)
node n1 pool=general type=m8 zone=a capacity-type=on-demand ready=5h runs(web-1 as web age=5h)`, model.RuleNoPrice,
			"its price is not known",
		},
	} {
		s, policy := clusterOf(t, types+c.cluster)
		plan := engine.Disrupt(s, policy)
		if len(plan.Kept) != 1 || plan.Kept[0].Reason.Rule != c.want {
			t.Errorf("%s: %+v", name, plan.Kept)
		}
		if len(plan.Kept) == 1 && !strings.Contains(reason.Kept(plan.Kept[0]), c.says) {
			t.Errorf("%s: %s", name, reason.Kept(plan.Kept[0]))
		}
		if end := until(t, s, policy, asPlanned(t)); end.rounds != 0 || !end.end.Now.After(s.Now.Add(time.Hour-lookEvery)) {
			t.Errorf("%s: %d rounds", name, end.rounds)
		}
	}
}
