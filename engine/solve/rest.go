package solve

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/solve/internal/firstfit"
)

// placeRest has engine/solve/internal/firstfit place the pods with awkward constraints, one by one, also on the machines that are planned.
func (p *problem) placeRest() {
	if !slices.ContainsFunc(p.groups, func(g *group) bool { return g.rest && g.refused == "" && g.unplanned() > 0 }) {
		return
	}
	packer := firstfit.New(p.s, *p.policy, p.state, p.views, p.rooms)
	for _, m := range p.machines {
		packer.Open(m.growing())
	}
	planned := len(p.machines)
	takes := map[int][]take{} // by machine of the packer
	for again := true; again; {
		again = false
		for _, g := range p.groups {
			n := g.unplanned()
			if !g.rest || g.refused == model.RuleVolumeInUse || n == 0 {
				continue
			}
			found := packer.Place(g.index, n)
			for _, on := range found.Nodes {
				p.settleOn(g, on)
			}
			for _, on := range found.Planned {
				takes[on.Index] = append(takes[on.Index], take{group: g, n: on.N, class: g.class, option: -1})
				g.planned += on.N
			}
			g.refused = found.Rule
			again = again || found.Left < n
		}
	}
	for i, m := range packer.Planned() {
		if len(takes[i]) > 0 {
			p.regrow(i, planned, &m, takes[i])
		}
	}
}

// unplanned is how many pods of a group that is left to engine/solve/internal/firstfit have neither a place nor a machine.
func (g *group) unplanned() int { return g.left() - g.planned }

func (p *problem) settleOn(g *group, on firstfit.PodCount) {
	for range on.N {
		p.settled = append(p.settled, settled{group: g, pod: g.pods[0], node: on.Index})
		g.pods = g.pods[1:]
	}
}

// growing is the machine as engine/solve/internal/firstfit knows it.
func (m *machine) growing() firstfit.Node {
	out := firstfit.Node{View: m.view, Types: slices.Clone(m.open), Zones: m.zones, Capacity: m.capacity, Custom: m.custom, Load: m.load, Relaxed: m.relax}
	for _, t := range m.takes {
		out.Shapes = append(out.Shapes, firstfit.ShapeCount{Shape: t.group.index, N: t.n})
	}
	return out
}

// regrow makes the machine what it became.
func (p *problem) regrow(i, planned int, from *firstfit.Node, more []take) {
	m := &machine{
		view: from.View, open: from.Types, zones: from.Zones, capacity: from.Capacity, custom: from.Custom, load: from.Load, takes: more,
		relax: from.Relaxed,
	}
	if i < planned {
		old := p.machines[i]
		p.rooms[m.view] = p.rooms[m.view].Plus(old.largest)
		m.takes, m.wants = slices.Concat(old.takes, more), old.wants
	}
	if !p.complete(m) {
		// It cannot be: its newcomers go without.
		for _, t := range more {
			t.group.planned -= t.n
			t.group.refused = model.RuleMinValues
		}
		if i < planned {
			p.rooms[m.view] = p.rooms[m.view].Minus(p.machines[i].largest)
		}
		return
	}
	p.rooms[m.view] = p.rooms[m.view].Minus(m.largest)
	if i < planned {
		p.machines[i] = m
	} else {
		p.machines = append(p.machines, m)
	}
}

// firstFit has engine/solve/internal/firstfit place everything.
func (p *problem) firstFit() {
	packer := firstfit.New(p.s, *p.policy, p.state, p.views, p.rooms)
	of := map[int]*group{}
	for _, g := range p.groups {
		of[g.index] = g
	}
	takes := map[int]map[*group][]int{}
	left := map[*group][]int{}
	for i, where := range packer.PlaceAll(p.kept) {
		g := of[p.s.Pending[i].Shape]
		if g == nil || p.kept != nil && p.kept[i] {
			continue
		}
		switch {
		case where.Node >= 0:
			p.plan.Placements = append(p.plan.Placements, model.Placement{Pod: p.s.Pending[i].PodKey, Node: p.s.Nodes[where.Node].Name})
		case where.Planned >= 0:
			if takes[where.Planned] == nil {
				takes[where.Planned] = map[*group][]int{}
			}
			takes[where.Planned][g] = append(takes[where.Planned][g], i)
		case where.Rule == model.RulePriority:
			p.refuseForPriority(i)
		default:
			left[g] = append(left[g], i)
			g.refused = where.Rule
		}
	}
	for _, g := range p.groups {
		g.pods = nil
	}
	for i, from := range packer.Planned() {
		m := &machine{view: from.View, open: from.Types, zones: from.Zones, capacity: from.Capacity, custom: from.Custom, load: from.Load, relax: from.Relaxed}
		for _, g := range p.groups {
			if pods := takes[i][g]; len(pods) > 0 {
				m.takes = append(m.takes, take{group: g, n: len(pods), class: g.class, option: -1})
				g.pods = append(g.pods, pods...)
			}
		}
		if !p.complete(m) {
			for _, t := range m.takes {
				at := len(t.group.pods) - t.n
				left[t.group] = append(left[t.group], t.group.pods[at:]...)
				t.group.pods, t.group.refused = t.group.pods[:at], model.RuleMinValues
			}
			continue
		}
		p.rooms[m.view] = p.rooms[m.view].Minus(m.largest)
		p.machines = append(p.machines, m)
	}
	for _, g := range p.groups {
		g.pods = append(g.pods, left[g]...)
	}
}
