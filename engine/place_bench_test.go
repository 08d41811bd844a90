package engine_test

import (
	"fmt"
	"testing"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/gen"
)

// A thousand nearly full nodes, and a thousand pods of 30 shapes that try those nodes first. For the conditions of
// measurement see BenchmarkProvision.
func BenchmarkProvisionOntoExisting(b *testing.B) {
	s := gen.Large(1000, 30)
	t := s.Pools[0].Types[100]
	for i := range 1000 {
		s.Nodes = append(s.Nodes, model.Node{
			Name: fmt.Sprintf("node-%04d", i), Pool: "general-purpose", Type: t.Name, State: model.Initialized,
			Capacity:    t.Capacity,
			Allocatable: t.Allocatable,
			Used:        t.Allocatable.Minus(model.Resources{model.CPU: 1500, model.Memory: 3 << 30, model.Pods: 5}),
			Labels: t.Requirements.And(model.NewRequirements(model.OneOf(model.LabelZone, "zone-b"),
				model.OneOf(model.LabelCapacityType, model.Spot))),
		})
	}
	model.Canonical(s)
	b.ReportAllocs()
	for b.Loop() {
		if p := engine.Provision(s, model.Policy{}); len(p.Placements) == 0 {
			b.Fatal("nothing was placed")
		}
	}
}

// A running cluster with 20 pods on each node, and one pending pod, or a thousand of 50 shapes. All pods have labels;
// "keeping apart" pods have anti-affinity on hosts or spread over zones, as running pods of their app do; "selecting"
// pods require one of 50 racks. Full nodes must each be rejected, and new ones launched. Measured as above, other
// builds running: on 1,000, 5,000 and 10,000 nodes 1pod takes 0.3, 0.5, 1.1 ms, 1podKeepingApart 2.9, 5.5, 12 ms,
// 1000pods50shapes 2.3, 4.8, 4.2 ms, 1000pods50shapesKeepingApart 3.8, 13, 27 ms. Half of the growth for pods that
// keep apart is the time to read 20 pods on each node.
func BenchmarkReplan(b *testing.B) {
	for _, nodes := range []int{100, 1000, 5000, 10_000} {
		for _, c := range []struct {
			name         string
			pods, shapes int
			how          string
		}{
			{"1pod", 1, 1, ""},
			{"1podKeepingApart", 1, 1, "apart"},
			{"1podSelecting", 1, 1, "selecting"},
			{"1podFull", 1, 1, "full"},
			{"1000pods50shapes", 1000, 50, ""},
			{"1000pods50shapesKeepingApart", 1000, 50, "apart"},
			{"1000pods50shapesSelecting", 1000, 50, "selecting"},
			{"1000pods50shapesFull", 1000, 50, "full"},
		} {
			s := running(nodes, c.pods, c.shapes, c.how)
			b.Run(fmt.Sprintf("%dnodes/%s", nodes, c.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if p := engine.Provision(s, model.Policy{}); len(p.Placements) == 0 && c.how != "full" {
						b.Fatalf("%d placed, %d launches, %d got nothing", len(p.Placements), len(p.Launches), len(p.Unplaced))
					}
				}
			})
		}
	}
}

// running has 200 apps, of which a third spread over zones, a third have anti-affinity on hosts, and every fifth
// requires a zone. Pods of the first apps are pending; how modifies these pods, or the nodes.
func running(nodes, pods, shapes int, how string) *model.Snapshot {
	const apps = 200
	s := gen.Large(0, 1)
	s.Shapes = s.Shapes[:0]
	for i := range apps {
		n := int64(i)
		app := fmt.Sprintf("app-%03d", i)
		own := model.Selector{Namespaces: []string{"default"}, Labels: model.Requirements{model.OneOf("app", app)}}
		shape := model.Shape{
			Namespace: "default", Labels: []model.Label{{Key: "app", Value: app}, {Key: "team", Value: fmt.Sprint(i % 10)}},
			Requests: model.Resources{model.CPU: 100 + n*137%900, model.Memory: (128 + n*311%1900) << 20, model.Pods: 1},
		}
		if i%5 == 4 {
			shape.Required = model.Requirements{model.OneOf(model.LabelZone, "zone-"+string(rune('a'+i%3)))}
		}
		constrained := how == "apart" || i >= shapes
		switch {
		case how == "selecting" && i < shapes:
			shape.Required = model.Requirements{model.OneOf("example.com/rack", fmt.Sprint(49-i%50))}
		case constrained && i%3 == 0:
			shape.AntiAffinity = []model.PodTerm{{Topology: model.LabelHostname, Pods: own}}
		case constrained && i%3 == 1:
			shape.Spread = []model.Spread{{Topology: model.LabelZone, MaxSkew: 5, Hard: true, Pods: own}}
		}
		s.Shapes = append(s.Shapes, shape)
	}
	for i := range pods {
		name := fmt.Sprintf("pod-%06d", i)
		s.Pending = append(s.Pending,
			model.Pod{PodKey: model.PodKey{Namespace: "default", Name: name, UID: name}, Shape: i % shapes})
	}
	t := s.Pools[0].Types[100]
	for i := range nodes {
		name := fmt.Sprintf("node-%06d", i)
		left := model.Resources{model.CPU: int64(i%15) * 100, model.Memory: 2 << 30, model.Pods: 20}
		if how == "full" {
			left[model.CPU] = 90
		}
		n := model.Node{
			Name: name, Pool: "general-purpose", Type: t.Name, State: model.Initialized, Capacity: t.Capacity,
			Allocatable: t.Allocatable, Used: t.Allocatable.Minus(left),
			Labels: t.Requirements.And(model.NewRequirements(model.OneOf(model.LabelZone, "zone-"+string(rune('a'+i%3))),
				model.OneOf(model.LabelCapacityType, model.Spot), model.OneOf(model.LabelHostname, name),
				model.OneOf("example.com/rack", fmt.Sprint(i%50)))),
		}
		for k := range 20 {
			bound := fmt.Sprintf("bound-%06d-%02d", i, k)
			n.Pods = append(n.Pods, model.BoundPod{Pod: model.Pod{PodKey: model.PodKey{
				Namespace: "default", Name: bound,
				UID: bound,
			}, Shape: (i*7 + k*3) % apps}})
		}
		s.Nodes = append(s.Nodes, n)
	}
	return model.Canonical(s)
}
