package engine_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/check"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/gen"
)

// underused returns a cluster of the given number of nodes, each planned for ten pods of 50 shapes, of which every
// keep-th pod is left: nearly all nodes are too large, and the few pods fit on fewer nodes.
func underused(nodes, keep int) *model.Snapshot {
	s := gen.Large(nodes*10, 50)
	p := &s.Pools[0]
	p.Types = slices.DeleteFunc(p.Types, func(t model.InstanceType) bool { return t.Capacity[model.CPU] > 32_000 })
	p.Disruption = model.DisruptionPolicy{AllowedEmpty: nodes, AllowedDrifted: nodes, AllowedUnderused: nodes}
	t := p.Types[slices.IndexFunc(p.Types, func(t model.InstanceType) bool { return t.Name == "m5.16x" })]
	pods := s.Pending
	s.Pending = nil
	for i := range nodes {
		n := model.Node{
			Name: fmt.Sprintf("node-%05d", i), Pool: p.Name, Type: t.Name, Zone: "zone-b", CapacityType: model.OnDemand,
			Price: t.Offerings[2].Price,
			State: model.Initialized, Initialized: s.Now.Add(-time.Hour), Capacity: t.Capacity, Allocatable: t.Allocatable,
			Labels: t.Requirements.And(model.NewRequirements(model.OneOf(model.LabelZone, "zone-b"),
				model.OneOf(model.LabelCapacityType, model.OnDemand),
				model.OneOf(model.LabelPool, p.Name))),
		}
		n.Claim = "claim-" + n.Name
		for k := range 10 {
			if pod := pods[i*10+k]; (i+k)%keep == 0 {
				shape := &s.Shapes[pod.Shape]
				if _, other := shape.Required.Get(model.LabelArch); other {
					continue
				}
				n.Used = n.Used.Plus(shape.Requests)
				n.Pods = append(n.Pods, model.BoundPod{Pod: pod, EvictionCost: 1000})
			}
		}
		slices.SortFunc(n.Pods, func(a, b model.BoundPod) int { return cmp.Compare(a.Name, b.Name) })
		s.Nodes = append(s.Nodes, n)
	}
	return model.Canonical(s)
}

// One call of Disrupt on 500 nodes with 5,000 pods, as the controller makes it between two provisioning plans.
// Processor time on the project's 2-core box, 22 November 2026: "nothing to do" 1 ms; "underused" 0.8 s for 8
// commands that remove 230 nodes; "hardly used" 0.2 s for 457 nodes; "drifted" 0.2 s for the 20 commands of one call,
// each a plan of its own with a replacement among 576 types; "drifted with nowhere to go", 1,000 nodes, 0.2 s.
func BenchmarkDisrupt(b *testing.B) {
	for _, c := range []struct {
		name        string
		nodes, keep int
		change      func(*model.Snapshot)
	}{
		{"nothing to do", 500, 1, func(s *model.Snapshot) { s.Pools[0].Disruption.Never = true }},
		{"underused", 500, 1, func(*model.Snapshot) {}},
		{"hardly used", 500, 5, func(*model.Snapshot) {}},
		{"drifted", 500, 1, func(s *model.Snapshot) {
			s.Pools[0].Disruption.Never, s.Pools[0].Disruption.AllowedDrifted = true, 50
			for i := range s.Nodes {
				s.Nodes[i].Drifted = "NodePoolDrifted"
			}
		}},
		{"drifted with nowhere to go", 1000, 1, func(s *model.Snapshot) {
			s.Pools[0].Limits.NodesSet, s.Pools[0].Limits.Nodes = true, 1
			for i := range s.Nodes {
				s.Nodes[i].Drifted, s.Nodes[i].Allocatable = "NodePoolDrifted", s.Nodes[i].Used
			}
		}},
	} {
		s := underused(c.nodes, c.keep)
		c.change(s)
		b.Run(fmt.Sprintf("%dnodes/%s", c.nodes, c.name), func(b *testing.B) {
			var p model.Plan
			before := processorTime()
			for b.Loop() {
				p = engine.Disrupt(s, model.Policy{})
			}
			b.ReportMetric((processorTime()-before).Seconds()/float64(b.N), "cpu-s/op")
			b.ReportMetric(float64(len(p.Commands)), "commands")
			going := 0
			for _, c := range p.Commands {
				going += len(c.Removals)
			}
			b.ReportMetric(float64(going), "going")
			for _, v := range check.Plan(s, model.Policy{}, p) {
				if !v.Unproven {
					b.Fatal(v.Error())
				}
			}
		})
	}
}
