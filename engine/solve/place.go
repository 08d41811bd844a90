package solve

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// placer puts pods on existing nodes.
type placer struct {
	s      *model.Snapshot
	policy *model.Policy
	state  *rules.State
	order  *rules.Order
	groups []*group
	plan   *model.Plan
	kept   []bool // by Pending: pods that keep their nominated node; nil if none does
	later  bool   // feedback.spreadLater
}

func (p *problem) placer() *placer {
	return &placer{
		s: p.s, policy: p.policy, state: p.state, order: p.order, groups: p.groups, plan: &p.plan, later: p.spreadLater,
	}
}

func placementOf(s *model.Snapshot, pod, node int) model.Placement {
	return model.Placement{Pod: s.Pending[pod].PodKey, Node: s.Nodes[node].Name}
}

// keepNominated places pods on the nodes to which an earlier plan nominated them, if the rules still allow it:
// kube-scheduler reserves capacity for them there, and a plan that fills nodes completely is hard to find again once
// it is partly carried out.
func (x *placer) keepNominated() {
	if !slices.ContainsFunc(x.s.Pending, func(pod model.Pod) bool { return pod.Nominated != "" }) {
		return
	}
	byName := func(n model.Node, name string) int { return cmp.Compare(n.Name, name) }
	for again := true; again; {
		again = false
		for _, g := range x.groups {
			left := g.pods[:0:0]
			for _, pod := range g.pods {
				n, known := slices.BinarySearchFunc(x.s.Nodes, x.s.Pending[pod].Nominated, byName)
				if !known || x.state.Allows(g.index, n) != "" {
					left = append(left, pod)
					continue
				}
				x.bind(g, pod, n)
				if x.kept == nil {
					x.kept = make([]bool, len(x.s.Pending))
				}
				x.kept[pod] = true
				again = true
			}
			g.pods = left
		}
		again = again && x.dependentsWait()
	}
}

// placeAll places pods on existing nodes with room: ready nodes first, then by name; large pods first. A group that
// must be near other pods is tried again once those are placed.
func (x *placer) placeAll() {
	for again := true; again; {
		again = false
		for _, g := range x.groups {
			if g.left() > 0 && x.place(g) {
				again = x.dependentsWait()
			}
		}
	}
}

// dependentsWait reports whether pods wait whose constraints on other pods may allow more nodes now.
func (x *placer) dependentsWait() bool {
	return slices.ContainsFunc(x.groups, func(g *group) bool {
		return g.left() > 0 && (len(g.shape.Affinity) > 0 || hasHardSpread(g.shape))
	})
}

// place reports whether it placed any pod of the group.
func (x *placer) place(g *group) bool {
	if len(g.shape.Spread)+len(g.shape.Affinity)+len(g.shape.Preferred) > 0 {
		var nodes []int
		x.order.WithRoom(g.request, func(n int) bool { nodes = append(nodes, n); return true })
		return x.placeOn(g, x.byPreference(g, nodes))
	}
	found := false
	x.order.WithRoom(g.request, func(n int) bool {
		found = x.fill(g, n) || found
		return g.left() > 0
	})
	return found
}

// placeOn tries the nodes again as long as it places pods: each pod may allow more nodes for the next one of its
// group.
func (x *placer) placeOn(g *group, nodes []int) bool {
	found := false
	for again := true; again && g.left() > 0; {
		again = false
		for _, n := range nodes {
			if x.fill(g, n) {
				found = true
				again = len(g.shape.Spread) > 0 || len(g.shape.Affinity) > 0
			}
			if g.left() == 0 {
				return true
			}
		}
		if again {
			nodes = x.admitting(g, nodes)
		}
	}
	return found
}

// fill puts as many pods of the group on the node as the rules and the policy allow. It reports whether there were any.
func (x *placer) fill(g *group, node int) bool {
	found := false
	for g.left() > 0 && x.launched(g, node) && x.state.Allows(g.index, node) == "" {
		x.bindNext(g, node)
		found = true
	}
	return found
}

// launched reports whether the node has been launched or may be launched for the group's next pod. The pods of a group
// that are below the policy's cutoff come last.
func (x *placer) launched(g *group, node int) bool {
	if !x.s.Nodes[node].Unlaunched {
		return true
	}
	g.early = g.early || spreadsBeyondHosts(g.shape)
	return x.policy.LaunchesFor(&x.s.Pending[g.pods[0]]) && !(x.later && g.early)
}

// spreadsBeyondHosts reports whether the shape has a spread by another label than the hostname that must be kept.
func spreadsBeyondHosts(s *model.Shape) bool {
	return slices.ContainsFunc(s.Spread, func(c model.Spread) bool { return c.Hard && c.Topology != model.LabelHostname })
}

// bindNext binds the group's next pod to the node.
func (x *placer) bindNext(g *group, node int) {
	x.bind(g, g.pods[0], node)
	g.pods = g.pods[1:]
}

func (x *placer) bind(g *group, pod, node int) {
	x.state.Bind(g.index, node)
	x.plan.Placements = append(x.plan.Placements, placementOf(x.s, pod, node))
}

// admitting returns the nodes that admit pods of the group, other pods aside.
func (x *placer) admitting(g *group, nodes []int) []int {
	return slices.DeleteFunc(slices.Clone(nodes), func(n int) bool { return x.state.Admits(g.index, n) != "" })
}

// byPreference sorts nodes of the same state by how well they match the pods' preferences.
func (x *placer) byPreference(g *group, nodes []int) []int {
	if len(g.shape.Preferred) == 0 || x.policy.Preferences == model.Ignore {
		return nodes
	}
	out := x.admitting(g, nodes)
	score := make(map[int]int64, len(out))
	for _, i := range out {
		score[i] = rules.Score(g.shape.Preferred, x.s.Nodes[i].Labels)
	}
	slices.SortStableFunc(out, func(a, b int) int {
		return cmp.Or(cmp.Compare(x.s.Nodes[b].State, x.s.Nodes[a].State), cmp.Compare(score[b], score[a]))
	})
	return out
}

// nodesThatTakePods returns the indices of nodes that may take pods: ready ones first, by name as in the snapshot.
func nodesThatTakePods(s *model.Snapshot) []int {
	out := make([]int, 0, len(s.Nodes))
	for state := model.Initialized; state >= model.InFlight; state-- {
		for i := range s.Nodes {
			if n := &s.Nodes[i]; n.State == state && !n.Deleting {
				out = append(out, i)
			}
		}
	}
	return out
}
