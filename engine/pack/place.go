package pack

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// bin is a machine that exists or is on its way.
type bin struct {
	node  *model.Node
	free  model.Resources
	types []model.InstanceType // of its pool
}

// place puts pods where there is room already: machines that are ready first, then by name; largest pods first.
func (p *problem) place() {
	bins := p.bins()
	for _, g := range p.groups {
		for _, b := range p.inOrderFor(g, bins) {
			if g.left == 0 {
				break
			}
			n := holds(&g.request, &b.free, p.active, g.left)
			if n == 0 || !p.mayRunOn(g, b) {
				continue
			}
			b.free = b.free.Minus(g.request.Times(int64(n)))
			for _, pod := range g.pods[:n] {
				p.plan.Placements = append(p.plan.Placements, model.Placement{Pod: p.s.Pending[pod].PodKey, Node: b.node.Name})
			}
			g.pods = g.pods[n:]
			g.left -= n
		}
	}
}

func (p *problem) bins() []*bin {
	types := map[string][]model.InstanceType{}
	for i := range p.s.Pools {
		types[p.s.Pools[i].Name] = p.s.Pools[i].Types
	}
	var out []*bin
	for i := range p.s.Nodes {
		n := &p.s.Nodes[i]
		if n.Deleting || n.Cordoned {
			continue
		}
		out = append(out, &bin{node: n, free: n.Allocatable.Minus(n.Used.NonNegative()), types: types[n.Pool]})
	}
	slices.SortStableFunc(out, func(a, b *bin) int {
		return cmp.Or(cmp.Compare(b.node.State, a.node.State), cmp.Compare(a.node.Name, b.node.Name))
	})
	return out
}

// inOrderFor moves machines that the pods would rather have before others of the same state; that costs nothing.
func (p *problem) inOrderFor(g *group, bins []*bin) []*bin {
	if len(g.shape.Preferred) == 0 {
		return bins
	}
	score := map[string]int64{}
	for _, b := range bins {
		score[b.node.Name] = rules.Score(g.shape.Preferred, b.node.Labels)
	}
	out := slices.Clone(bins)
	slices.SortStableFunc(out, func(a, b *bin) int {
		return cmp.Or(cmp.Compare(b.node.State, a.node.State), cmp.Compare(score[b.node.Name], score[a.node.Name]))
	})
	return out
}

func (p *problem) mayRunOn(g *group, b *bin) bool {
	c := p.classes[g.class]
	ok, known := c.onNode[b.node.Name]
	if !known {
		ok = rules.OnNode(g.shape, b.node, b.types)
		c.onNode[b.node.Name] = ok
	}
	return ok
}

// holds is how many of at most most requests fit into free.
func holds(request, free *model.Resources, active []int, most int) int {
	n := int64(most)
	for _, i := range active {
		ask := request[i]
		if ask <= 0 {
			continue
		}
		if ask > free[i] {
			return 0
		}
		if n > 1 {
			n = min(n, free[i]/ask)
		}
	}
	return int(n)
}
