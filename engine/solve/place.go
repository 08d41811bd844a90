package solve

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// place puts pods where there is room already: machines that are ready first, then by name; large pods first. Who needs
// others near waits for them.
func (p *problem) place() {
	for again := true; again; {
		again = false
		for _, g := range p.groups {
			if g.left() > 0 && p.placeWhereRoom(g) {
				again = p.dependent()
			}
		}
	}
}

// placeWhereRoom reports whether any pod of the group found a place.
func (p *problem) placeWhereRoom(g *group) bool {
	if len(g.shape.Spread)+len(g.shape.Affinity)+len(g.shape.Preferred) > 0 {
		var nodes []int
		p.order.WithRoom(g.request, func(n int) bool { nodes = append(nodes, n); return true })
		return p.placeGroup(g, p.inOrderFor(g, nodes))
	}
	found := false
	p.order.WithRoom(g.request, func(n int) bool {
		for g.left() > 0 && p.state.Allows(g.index, n) == "" {
			p.placeOn(g, n)
			found = true
		}
		return g.left() > 0
	})
	return found
}

// dependent reports whether some group waits that may be allowed more now that others have their places.
func (p *problem) dependent() bool {
	return slices.ContainsFunc(p.groups, func(g *group) bool {
		return g.left() > 0 && (len(g.shape.Affinity) > 0 || slices.ContainsFunc(g.shape.Spread, func(c model.Spread) bool { return c.Hard }))
	})
}

// placeGroup reports whether any pod found a place.
func (p *problem) placeGroup(g *group, nodes []int) bool {
	found := false
	for again := true; again && g.left() > 0; {
		again = false
		for _, n := range nodes {
			for g.left() > 0 && p.state.Allows(g.index, n) == "" {
				p.placeOn(g, n)
				found = true
				again = len(g.shape.Spread) > 0 || len(g.shape.Affinity) > 0
			}
			if g.left() == 0 {
				return true
			}
		}
		if again {
			nodes = p.admitting(g, nodes)
		}
	}
	return found
}

// placeOn gives the group's next pod its place.
func (p *problem) placeOn(g *group, node int) {
	p.state.Bind(g.index, node)
	p.plan.Placements = append(p.plan.Placements, model.Placement{Pod: p.s.Pending[g.pods[0]].PodKey, Node: p.s.Nodes[node].Name})
	g.pods = g.pods[1:]
}

// admitting are those of the machines that take pods of the group as far as other pods' labels let them.
func (p *problem) admitting(g *group, nodes []int) []int {
	var out []int
	for _, n := range nodes {
		if p.state.Admits(g.index, n) == "" {
			out = append(out, n)
		}
	}
	return out
}

// nodesThatTakePods are the indices of machines that may take pods: ready ones first, by name as in the snapshot.
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

// inOrderFor moves machines that the pods would rather have before others of the same state; that costs nothing.
func (p *problem) inOrderFor(g *group, nodes []int) []int {
	if len(g.shape.Preferred) == 0 || p.policy.Preferences == model.Ignore {
		return nodes
	}
	type scored struct {
		node  int
		state model.NodeState
		score int64
	}
	var all []scored
	for _, i := range p.admitting(g, nodes) {
		n := &p.s.Nodes[i]
		all = append(all, scored{i, n.State, rules.Score(g.shape.Preferred, n.Labels)})
	}
	slices.SortStableFunc(all, func(a, b scored) int { return cmp.Or(cmp.Compare(b.state, a.state), cmp.Compare(b.score, a.score)) })
	out := make([]int, len(all))
	for i := range all {
		out[i] = all[i].node
	}
	return out
}
