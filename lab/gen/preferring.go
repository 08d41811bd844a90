package gen

import (
	"fmt"
	"math/rand/v2"

	"github.com/nodeless/nodeless/engine/model"
)

// Preferring returns a cluster without absurd numbers whose Deployments spread and also prefer zones, architectures and
// families. Some of their pods run on nodes that they would not prefer.
func Preferring(seed uint64) *model.Snapshot {
	r := source{rand.New(rand.NewPCG(seed, 0x707265666572))}
	s := &model.Snapshot{Now: epoch, ResourceNames: model.WellKnownResources}
	s.Namespaces = []model.Namespace{{Name: "default"}}
	var types []model.InstanceType
	for i, f := range families[:3] {
		types = append(types, typeOf(f.name, f.gib, f.core, f.arch, int64(i), sizes[0]),
			typeOf(f.name, f.gib, f.core, f.arch, int64(i+3), sizes[1]))
	}
	p := model.Pool{Name: "pool-0", Types: types}
	if r.chance(30) {
		p.Limits.NodesSet, p.Limits.Nodes = true, int64(r.IntN(10))
	}
	s.Pools = append(s.Pools, p)
	if r.chance(30) {
		s.Pools = append(s.Pools, model.Pool{Name: "pool-1", Types: types[:2], Weight: 1})
	}
	for i := range 1 + r.IntN(3) {
		app := fmt.Sprintf("app-%d", i)
		s.Shapes = append(s.Shapes, r.preferringShape(app))
		for k := range 1 + r.IntN(6) {
			s.Pending = append(s.Pending, r.podOf(s, i, fmt.Sprintf("%s-%d", app, k)))
		}
	}
	for i := range r.IntN(5) {
		t := types[r.IntN(len(types))]
		n := model.Node{
			Name: fmt.Sprintf("node-%d", i), Pool: "pool-0", Claim: fmt.Sprintf("claim-%d", i), Type: t.Name,
			Zone: pick(r, "zone-a", "zone-b", "zone-c"), CapacityType: model.OnDemand, State: model.Initialized,
			Price: 100_000, Created: epoch, Initialized: epoch, Capacity: t.Capacity, Allocatable: t.Allocatable,
		}
		n.Labels = t.Requirements.And(model.NewRequirements(model.OneOf(model.LabelZone, n.Zone),
			model.OneOf(model.LabelCapacityType, n.CapacityType), model.OneOf(model.LabelPool, n.Pool),
			model.OneOf(model.LabelHostname, n.Name)))
		for k := range r.IntN(3) {
			shape := r.IntN(len(s.Shapes))
			if !s.Shapes[shape].Requests.Fits(n.Allocatable.Minus(n.Used)) {
				continue
			}
			n.Pods = append(n.Pods, model.BoundPod{Pod: r.podOf(s, shape, fmt.Sprintf("%s-on-%d-%d", n.Name, i, k))})
			n.Used = n.Used.Plus(s.Shapes[shape].Requests)
		}
		s.Nodes = append(s.Nodes, n)
	}
	return model.Canonical(s)
}

func (r source) podOf(s *model.Snapshot, shape int, name string) model.Pod {
	return model.Pod{
		PodKey: model.PodKey{Namespace: "default", Name: name, UID: "uid-" + name}, Shape: shape, Created: epoch,
		Priority: int32(s.Shapes[shape].Requests[model.CPU] / 1000),
	}
}

func (r source) preferringShape(app string) model.Shape {
	own := model.Selector{
		Namespaces: []string{"default"}, Labels: model.NewRequirements(model.OneOf("app", app)),
	}
	s := model.Shape{
		Namespace: "default", Labels: []model.Label{{Key: "app", Value: app}},
		Requests: model.Resources{model.CPU: int64(300 + r.IntN(1500)), model.Memory: 512 << 20, model.Pods: 1},
	}
	for r.chance(70) && len(s.Spread) < 3 {
		s.Spread = append(s.Spread, model.Spread{
			Topology: pick(r, model.LabelZone, model.LabelZone, model.LabelHostname),
			MaxSkew:  pick[int32](r, 1, 1, 2), Hard: r.chance(70), Pods: own,
		})
	}
	if r.chance(20) {
		s.AntiAffinity = append(s.AntiAffinity, model.PodTerm{Topology: model.LabelHostname, Pods: own})
	}
	for r.chance(60) && len(s.Preferred) < 3 {
		s.Preferred = append(s.Preferred, model.Preference{Weight: pick[int32](r, 1, 50, 100), Terms: r.preferredTerms()})
	}
	if r.chance(30) {
		s.PreferredPods = append(s.PreferredPods, model.PodPreference{
			Weight: pick[int32](r, 50, 100, -50, -100), PodTerm: model.PodTerm{
				Topology: pick(r, model.LabelZone, model.LabelHostname), Pods: own,
			},
		})
	}
	return s
}

func (r source) preferredTerms() model.Requirements {
	return model.NewRequirements(pick(r, model.OneOf(model.LabelZone, "zone-a"),
		model.OneOf(model.LabelZone, "zone-b", "zone-c"), model.OneOf(model.LabelArch, "arm64"),
		model.OneOf(labelFamily, "c"), model.OneOf(model.LabelPool, "pool-1")))
}
