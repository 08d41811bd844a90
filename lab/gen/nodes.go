package gen

import (
	"fmt"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// node returns a node of some pool, or of none, in any state.
func (r source) node(s *model.Snapshot, name string, types []model.InstanceType) model.Node {
	n := model.Node{
		Name: name, Zone: pick(r, "zone-a", "zone-b", "zone-c"), CapacityType: pick(r, model.Spot, model.OnDemand),
		State: pick(r, model.InFlight, model.Registered, model.Initialized, model.Initialized, model.Initialized),
		Price: model.Price(r.IntN(1_000_000)), Created: epoch,
		Deleting: r.chance(10), Cordoned: r.chance(7), DoNotDisrupt: r.chance(10),
	}
	if n.State == model.Initialized {
		n.Initialized = epoch.Add(time.Duration(r.IntN(3600)) * time.Second)
	}
	if r.chance(50) {
		n.LastPodEvent = epoch.Add(time.Duration(r.IntN(3600)) * time.Second)
	}
	if r.chance(25) {
		n.Drifted = "NodePoolDrifted"
	}
	if r.chance(15) {
		n.Taints = []model.Taint{{Key: "gpu", Value: "true", Effect: model.NoSchedule}}
	}
	if len(types) > 0 {
		r.describe(s, &n, types)
	}
	for i := range r.IntN(3) {
		n.Pods = append(n.Pods, model.BoundPod{
			Pod:    r.pod(s, fmt.Sprintf("bound-%s-%d", name, i)),
			Daemon: r.chance(60), Terminal: r.chance(30), DoNotDisrupt: r.chance(10),
		})
	}
	return n
}

// describe sets the node's resources and labels to those of a type. In flight, the labels are a claim's requirements
// with several types.
func (r source) describe(s *model.Snapshot, n *model.Node, types []model.InstanceType) {
	t := pick(r, types...)
	n.Capacity, n.Allocatable = t.Capacity, t.Allocatable
	n.Used = model.Resources{model.CPU: int64(r.IntN(1000)), model.Pods: int64(r.IntN(5))}
	if len(s.Pools) > 0 && r.chance(85) {
		n.Pool, n.Claim = pick(r, s.Pools...).Name, "claim-"+n.Name
	}
	if n.State == model.InFlight {
		n.Labels = model.NewRequirements(model.OneOf(model.LabelPool, n.Pool),
			model.OneOf(model.LabelInstanceType, t.Name, pick(r, types...).Name),
			model.OneOf(model.LabelZone, n.Zone, pick(r, "zone-a", "zone-b")),
			model.OneOf(model.LabelCapacityType, model.Spot, model.OnDemand)).And(r.requirements(40))
		return
	}
	n.Type = t.Name
	n.Labels = t.Requirements.And(model.NewRequirements(model.OneOf(model.LabelZone, n.Zone),
		model.OneOf(model.LabelCapacityType, n.CapacityType), model.OneOf(model.LabelPool, n.Pool)))
	if r.chance(40) {
		n.Labels = n.Labels.And(model.Requirements{model.OneOf(labelTeam, pick(r, "red", "blue", "green"))})
	}
}
