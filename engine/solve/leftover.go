package solve

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/solve/internal/firstfit"
)

// placeLeftovers places the pods with awkward constraints one by one with firstfit, also on planned nodes. A group is
// tried again as long as any pod is placed.
func (p *problem) placeLeftovers() {
	if !slices.ContainsFunc(p.groups, func(g *group) bool { return g.leftover && g.refused == "" && g.unplanned() > 0 }) {
		return
	}
	packer := firstfit.New(p.s, *p.policy, p.state, p.views, p.rooms)
	for _, n := range p.nodes {
		packer.Open(n.forFirstFit())
	}
	before := len(p.nodes)
	more := map[int][]assignment{} // by planned node
	for again := true; again; {
		again = false
		for _, g := range p.groups {
			n := g.unplanned()
			if !g.leftover || g.refused == model.RuleVolumeInUse || n == 0 {
				continue
			}
			places, rule := packer.Place(g.index, n)
			for _, at := range places {
				on := more[at.Planned]
				switch last := len(on) - 1; {
				case at.Node >= 0:
					p.settled = append(p.settled, settled{group: g, pod: g.pods[0], node: at.Node})
					g.pods = g.pods[1:]
					continue
				case last >= 0 && on[last].group == g:
					on[last].n++
				default:
					more[at.Planned] = append(on, assignment{group: g, n: 1, class: g.class, option: -1})
				}
				g.planned++
			}
			g.refused = rule
			again = again || len(places) > 0
		}
	}
	for i, n := range packer.Planned() {
		if len(more[i]) > 0 {
			p.grow(i, before, &n, more[i])
		}
	}
}

// unplanned returns the number of pods of a leftover group that are neither placed nor on a planned node.
func (g *group) unplanned() int { return g.left() - g.planned }

// forFirstFit returns the node as firstfit knows it.
func (n *plannedNode) forFirstFit() firstfit.Node {
	out := firstfit.Node{
		View: n.view, Types: slices.Clone(n.bearing), OfferSet: n.OfferSet, Custom: n.custom, Load: n.load,
		Relaxed: n.relaxed,
	}
	for _, a := range n.assignments {
		out.Shapes = append(out.Shapes, firstfit.ShapeCount{Shape: a.group.index, N: a.n})
	}
	return out
}

func fromFirstFit(n *firstfit.Node, pods []assignment) *plannedNode {
	return &plannedNode{
		view: n.View, assignments: pods, bearing: n.Types, OfferSet: n.OfferSet, custom: n.Custom,
		load: n.Load, relaxed: n.Relaxed,
	}
}

// grow replaces the i-th planned node with what it became when pods joined it. Nodes from index before on are new.
func (p *problem) grow(i, before int, from *firstfit.Node, more []assignment) {
	n := fromFirstFit(from, more)
	if i < before {
		old := p.nodes[i]
		p.refund(old)
		n.assignments, n.wants = slices.Concat(old.assignments, more), old.wants
	}
	if !p.builder.complete(n) {
		// No offering bears it: the pods that joined stay unplaced.
		p.dropped = true
		for _, a := range more {
			a.group.planned -= a.n
			a.group.refused = p.incomplete(n)
		}
		if i < before {
			p.charge(p.nodes[i])
		}
		return
	}
	p.charge(n)
	if i < before {
		p.nodes[i] = n
	} else {
		p.nodes = append(p.nodes, n)
	}
}

// incomplete returns why a node that firstfit planned has no offering.
func (p *problem) incomplete(n *plannedNode) model.Rule {
	if p.addresses.limits(n.view) && p.addresses.starved[n.view] {
		return model.RuleAddresses
	}
	return model.RuleMinValues
}

// placeAllFirstFit has firstfit place all pods except those that keep their nodes.
func (p *problem) placeAllFirstFit(kept []bool) {
	packer := firstfit.New(p.s, *p.policy, p.state, p.views, p.rooms)
	byShape := map[int]*group{}
	for _, g := range p.groups {
		byShape[g.index] = g
	}
	planned := map[int]map[*group][]int{} // pods by planned node
	left := map[*group][]int{}
	for i, at := range packer.PlaceAll(kept) {
		g := byShape[p.s.Pending[i].Shape]
		if g == nil || kept != nil && kept[i] {
			continue
		}
		switch {
		case at.Node >= 0:
			p.settled = append(p.settled, settled{group: g, pod: i, node: at.Node})
		case at.Planned >= 0:
			if planned[at.Planned] == nil {
				planned[at.Planned] = map[*group][]int{}
			}
			planned[at.Planned][g] = append(planned[at.Planned][g], i)
		case at.Rule == model.RulePriority:
			p.refuse(i, priorityReason(p.policy))
		default:
			left[g] = append(left[g], i)
			g.refused = at.Rule
		}
	}
	for _, g := range p.groups {
		g.pods = nil
	}
	for i, from := range packer.Planned() {
		n := fromFirstFit(&from, nil)
		for _, g := range p.groups {
			if pods := planned[i][g]; len(pods) > 0 {
				n.assignments = append(n.assignments, assignment{group: g, n: len(pods), class: g.class, option: -1})
				g.pods = append(g.pods, pods...)
			}
		}
		if !p.builder.complete(n) {
			p.dropped = true
			for _, a := range n.assignments {
				at := len(a.group.pods) - a.n
				left[a.group] = append(left[a.group], a.group.pods[at:]...)
				a.group.pods, a.group.refused = a.group.pods[:at], p.incomplete(n)
			}
			continue
		}
		p.charge(n)
		p.nodes = append(p.nodes, n)
	}
	for _, g := range p.groups {
		g.pods = append(g.pods, left[g]...)
	}
}
