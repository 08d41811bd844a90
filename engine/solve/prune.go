package solve

import (
	"slices"
	"strconv"

	"github.com/nodeless/nodeless/engine/model"
)

// prune takes pods off machines that could not be bound there after all: where the search was cut, or a machine could not be
// had, others were counted on that never come. It binds the pods one after another, as kube-scheduler would.
func (p *problem) prune() {
	if !p.partial && len(p.unserved()) == 0 || len(p.settled) == 0 && !slices.ContainsFunc(p.machines, p.looks) {
		return
	}
	for _, x := range p.settled {
		p.state.Unbind(x.group.index, x.node)
	}
	waiting := p.settled
	p.settled = nil
	left := make([][]int, len(p.machines)) // pods by take that are not bound yet
	nodes := make([]int, len(p.machines))
	for i, m := range p.machines {
		nodes[i] = p.state.AddNode(p.nodeOf(m, i))
		for _, t := range m.takes {
			left[i] = append(left[i], t.n)
		}
	}
	bind := func(looking bool) (bound bool) {
		waiting = slices.DeleteFunc(waiting, func(x settled) bool {
			if looksAt(x.group.shape) != looking || p.state.Allows(x.group.index, x.node) != "" {
				return false
			}
			p.state.Bind(x.group.index, x.node)
			p.settled = append(p.settled, x)
			bound = true
			return true
		})
		for i, m := range p.machines {
			for j, t := range m.takes {
				if looksAt(t.group.shape) != looking {
					continue
				}
				for left[i][j] > 0 && p.state.Allows(t.group.index, nodes[i]) == "" {
					p.state.Bind(t.group.index, nodes[i])
					left[i][j]--
					bound = true
				}
			}
		}
		return bound
	}
	for bind(true) || bind(false) {
	}
	for _, x := range slices.Backward(waiting) {
		x.group.pods = append([]int{x.pod}, x.group.pods...)
	}
	for i, m := range p.machines {
		for j := range m.takes {
			if m.takes[j].n -= left[i][j]; left[i][j] > 0 {
				p.bound = 0 // it was of all of them
			}
		}
		m.takes = slices.DeleteFunc(m.takes, func(t take) bool { return t.n == 0 })
		if len(m.takes) == 0 {
			p.rooms[m.view] = p.rooms[m.view].Plus(m.largest)
			continue
		}
		m.load = model.Resources{}
		for _, t := range m.takes {
			m.load = m.load.Plus(t.group.request.Times(int64(t.n)))
		}
	}
	p.machines = slices.DeleteFunc(p.machines, func(m *machine) bool { return len(m.takes) == 0 })
}

// looks reports whether a pod of the machine looks at other pods.
func (p *problem) looks(m *machine) bool {
	return slices.ContainsFunc(m.takes, func(t take) bool { return looksAt(t.group.shape) })
}

func looksAt(s *model.Shape) bool {
	return len(s.Affinity)+len(s.AntiAffinity) > 0 || slices.ContainsFunc(s.Spread, func(c model.Spread) bool { return c.Hard })
}

// nodeOf is the i-th machine as a node of the chosen offering.
func (p *problem) nodeOf(m *machine, i int) model.Node {
	v := p.views[m.view]
	t := &v.Pool.Types[m.typ]
	n := model.Node{
		Name: "planned " + strconv.Itoa(i), Pool: v.Pool.Name, Type: t.Name, Zone: m.chosen.Zone, CapacityType: m.chosen.CapacityType,
		Taints: v.Pool.Taints, Capacity: t.Capacity, Allocatable: v.Net[m.typ], AttachLimits: t.AttachLimits,
	}
	for _, f := range v.Offers[m.typ] {
		if v.Zones[f.Zone] == m.chosen.Zone && v.Capacities[f.Capacity] == m.chosen.CapacityType {
			n.Labels = v.LabelsOf(m.typ, f)
			break
		}
	}
	for _, r := range m.custom {
		n.Labels = n.Labels.And(model.Requirements{oneValue(r)})
	}
	return n
}
