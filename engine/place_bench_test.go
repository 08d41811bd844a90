package engine_test

import (
	"fmt"
	"testing"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/gen"
	"github.com/nodeless/nodeless/engine/model"
)

// A thousand machines, nearly full, and a thousand pods of 30 shapes that look for room there first. Measured as above:
// see BenchmarkProvision.
func BenchmarkProvisionOntoExisting(b *testing.B) {
	s := gen.Large(1000, 30)
	t := s.Pools[0].Types[100]
	for i := range 1000 {
		s.Nodes = append(s.Nodes, model.Node{
			Name: fmt.Sprintf("node-%04d", i), Pool: "general-purpose", Type: t.Name, State: model.Initialized, Capacity: t.Capacity,
			Allocatable: t.Allocatable, Used: t.Allocatable.Minus(model.Resources{model.CPU: 1500, model.Memory: 3 << 30, model.Pods: 5}),
			Labels: t.Requirements.And(model.NewRequirements(model.OneOf(model.LabelZone, "zone-b"), model.OneOf(model.LabelCapacityType, model.Spot))),
		})
	}
	gen.Canonical(s)
	b.ReportAllocs()
	for b.Loop() {
		if p := engine.Provision(s, model.Policy{}); len(p.Placements) == 0 {
			b.Fatal("nothing was placed")
		}
	}
}
