package compatible

import (
	"github.com/nodeless/nodeless/engine/model"
)

// Provision places each pending pod on a node, ready or in flight, or on a launch. It uses only the first pool, and
// considers no constraints but requests of CPU, memory and GPUs and the limit of pods per node.
func Provision(s *model.Snapshot) model.Plan {
	items := waiting(s)
	f := fill(marketOf(s), rooms(s), items)
	var plan model.Plan
	for i, n := range f.places {
		if n >= 0 {
			plan.Placements = append(plan.Placements, model.Placement{Pod: items[i].key, Node: f.nodes[n].name})
		}
	}
	for _, c := range f.claims {
		plan.Launches = append(plan.Launches, f.launch(c, items, &s.Pools[0]))
	}
	for _, i := range f.none {
		plan.Unplaced = append(plan.Unplaced,
			model.Unplaced{Pod: items[i].key, Reason: model.Reason{Rule: model.RuleCapacity}})
	}
	return plan
}

// waiting returns the pending pods.
func waiting(s *model.Snapshot) []item {
	out := make([]item, 0, len(s.Pending))
	for i := range s.Pending {
		p := &s.Pending[i]
		out = append(out, item{
			key: p.PodKey, ask: vectorOf(&s.Shapes[p.Shape].Requests), at: p.Created.UnixNano(),
			from: p.From,
		})
	}
	return out
}

// rooms returns the nodes that accept pods: ready ones first, then by name.
func rooms(s *model.Snapshot) []room {
	out := make([]room, 0, len(s.Nodes))
	for _, ready := range []bool{true, false} {
		for i := range s.Nodes {
			n := &s.Nodes[i]
			if n.Deleting || (n.State == model.Initialized) != ready {
				continue
			}
			free := vectorOf(&n.Allocatable).minus(vectorOf(&n.Used))
			out = append(out, room{name: n.Name, free: free, inFlight: !ready})
		}
	}
	return out
}
