package grow

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// Open takes in a machine that was planned elsewhere; pods may join it, and it may grow to any of its Types. The room of its
// pool is taken to be charged. Its index is the number of machines that were there before.
func (p *Packer) Open(m Machine) {
	i := len(p.machines)
	x := &machine{
		view: m.View, types: slices.Clone(m.Types), zones: fromBools(m.Zones), capacity: fromBools(m.Capacity), custom: m.Custom,
	}
	p.machines = append(p.machines, x)
	for _, sc := range m.Shapes {
		p.record(sc.Shape, i, int32(sc.N))
		p.addPod(x, sc.Shape, sc.N)
	}
	x.load = m.Load
	x.most = p.mostLeft(x)
	p.version++
	if !tooFull(x, p.least) {
		at, _ := slices.BinarySearchFunc(p.order, x.pods+1, func(o, pods int) int { return p.machines[o].pods - pods })
		p.order = slices.Insert(p.order, at, i)
	}
}

// Machines are those that were opened, from outside and by the packer, by index.
func (p *Packer) Machines() []Machine {
	out := make([]Machine, len(p.machines))
	for i, m := range p.machines {
		v := p.pools[m.view].v
		out[i] = Machine{
			View: m.view, Shapes: slices.Clone(m.shapes), Types: slices.Clone(m.types),
			Zones: toBools(m.zones, len(v.Zones)), Capacity: toBools(m.capacity, len(v.Capacities)),
			Custom: m.custom, Load: m.load,
		}
	}
	return out
}

// softly reports whether taints that are only to be avoided let the form in.
func (f *form) softly(taints []model.Taint) bool {
	return f.wish.soft || !slices.ContainsFunc(taints, func(t model.Taint) bool {
		return t.Effect == model.PreferNoSchedule &&
			!slices.ContainsFunc(f.chain.shape.Tolerations, func(x model.Toleration) bool { return x.Tolerates(t) })
	})
}
