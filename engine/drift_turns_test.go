package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
)

// Drifted nodes of a hundred pools, none of whose pods fit anywhere else: piece by piece each node is evaluated once,
// and no pool has a second turn before every pool has had its first, with its oldest drifted node.
func TestPoolsTakeTurnsAcrossPieces(t *testing.T) {
	const pools, each = 100, 3
	var text strings.Builder
	text.WriteString("now 2026-01-02T00:00:00Z\ntype s4 cpu=4 memory=16Gi pods=30 offers(a on-demand 0.2)\nshape app cpu=3\n")
	for p := range pools {
		fmt.Fprintf(&text, "pool p%03d limit(cpu=1) disrupt(drifted=9)\n", p)
		for n := range each {
			fmt.Fprintf(&text, "node p%03d-%d pool=p%03d type=s4 zone=a capacity-type=on-demand price=0.2 ready=99h drifted=AMIDrifted drifted-for=%dm runs(app-%d-%d as app)\n",
				p, n, p, 1+p*each+n, p, n)
		}
	}
	s, policy := clusterOf(t, text.String())
	policy.MaxWhatIfs = 40 // of six steps for two plans each
	search, after, looked := engine.NewSearch(s, policy), model.Cursor{}, map[string]int{}
	var order []string
	for range pools * each {
		plan := search.From(after)
		for _, k := range plan.Kept {
			if k.Reason.Rule == model.RuleNoPlace {
				if looked[k.Node]++; looked[k.Node] == 1 {
					order = append(order, k.Node)
				}
			}
		}
		if after = plan.After; after == (model.Cursor{}) {
			break
		}
	}
	if len(order) != pools*each {
		t.Fatalf("%d of %d machines were looked at, %d times in all", len(order), pools*each, len(looked))
	}
	first := map[string]bool{}
	for i, name := range order[:pools] {
		pool, machine, _ := strings.Cut(name, "-")
		if first[pool] || machine != fmt.Sprint(each-1) {
			t.Errorf("turn %d is %s: not the machine of its pool that drifted first, or its pool's second turn", i, name)
		}
		first[pool] = true
	}
	for name, n := range looked {
		if n != 1 {
			t.Errorf("%s was looked at %d times", name, n)
		}
	}
}

// Drifted nodes of twenty static pools, none of which may launch a replacement, use up no steps: the drifted node of
// another pool is replaced.
func TestStaticPoolsAtTheirLimitStopNoOtherDrift(t *testing.T) {
	var text strings.Builder
	text.WriteString("type s4 cpu=4 memory=16Gi pods=30 offers(a on-demand 0.2)\nshape app cpu=3\n")
	const node = "node n-%s pool=%s type=s4 zone=a capacity-type=on-demand price=0.2 ready=9h " +
		"drifted=AMIDrifted runs(app-%s as app)\n"
	for p := range 20 {
		name := fmt.Sprintf("static-%02d", p)
		fmt.Fprintf(&text, "pool %s replicas=1 limit(nodes=1) usage(nodes=1) disrupt(drifted=1)\n", name)
		fmt.Fprintf(&text, node, name, name, name)
	}
	text.WriteString("pool web disrupt(drifted=1)\n")
	fmt.Fprintf(&text, node, "web", "web", "web")
	s, policy := clusterOf(t, text.String())
	plan := engine.Disrupt(s, policy)
	if len(plan.Commands) != 1 || plan.Commands[0].Removals[0].Node != "n-web" {
		t.Errorf("%d commands, want one that replaces n-web; kept: %v", len(plan.Commands), plan.Kept)
	}
}
