package rules_test

import (
	"math/rand/v2"
	"testing"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
	"github.com/nodeless/nodeless/lab/gen"
)

// Counts made on first use equal counts kept from the beginning.
func TestOrderOfQueriesDoesNotMatter(t *testing.T) {
	for seed := range uint64(500) {
		s := gen.Constrained(seed)
		r := rand.New(rand.NewPCG(seed, 1))
		early, late := rules.NewState(s), rules.NewState(fewerNodes(s, len(s.Nodes)/2))
		for shape := range s.Shapes {
			early.OwnerCounters(shape)
			early.AvoidedByCounters(shape)
		}
		for i := len(s.Nodes) / 2; i < len(s.Nodes); i++ {
			late.AddNode(s.Nodes[i])
		}
		for range 10 {
			if len(s.Nodes) == 0 || len(s.Shapes) == 0 {
				break
			}
			shape, node := r.IntN(len(s.Shapes)), r.IntN(len(s.Nodes))
			early.Bind(shape, node)
			late.Bind(shape, node)
			if r.IntN(4) == 0 {
				early.Unbind(shape, node)
				late.Unbind(shape, node)
			}
		}
		for _, shape := range r.Perm(len(s.Shapes)) {
			for node := range s.Nodes {
				if a, b := early.Allows(shape, node), late.Allows(shape, node); a != b {
					t.Fatalf("seed %d: shape %d on %s: %q if asked early, %q if asked late", seed, shape, s.Nodes[node].Name, a, b)
				}
			}
		}
		for node := range s.Nodes {
			for resource := range model.MaxResources {
				if free, got := early.FreeOf(node, resource), late.FreeOf(node, resource); got != free {
					t.Fatalf("seed %d: %s has %d of resource %d, and %d if asked late", seed, s.Nodes[node].Name, free, resource, got)
				}
			}
		}
	}
}

func fewerNodes(s *model.Snapshot, n int) *model.Snapshot {
	out := *s
	out.Nodes = s.Nodes[:n:n]
	return &out
}
