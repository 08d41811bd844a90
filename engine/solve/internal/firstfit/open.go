package firstfit

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
		relaxed: m.Relaxed,
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

// Machines are those that were opened, from outside and by the packer, by index. A machine with pods that keep away from
// others by a label gets one value of it, of those from which all others were kept away.
func (p *Packer) Machines() []Machine {
	for i := range p.machines {
		p.settle(i)
	}
	out := make([]Machine, len(p.machines))
	for i, m := range p.machines {
		v := p.pools[m.view].v
		out[i] = Machine{
			View: m.view, Shapes: slices.Clone(m.shapes), Types: slices.Clone(m.types),
			Zones: toBools(m.zones, len(v.Zones)), Capacity: toBools(m.capacity, len(v.Capacities)),
			Custom: m.custom, Load: m.load, Relaxed: m.relaxed,
		}
	}
	return out
}

// settle decides the domains that anti-affinities of a machine's pods left open.
func (p *Packer) settle(i int) {
	m, t := p.machines[i], &p.try
	for _, sc := range m.shapes {
		for _, counter := range p.st.AntiAffinityCounters(sc.Shape) {
			of := p.topology(m.view, p.st.CounterTopology(counter))
			p.domains = p.possible(p.domains[:0], of, m.types, m.zones, m.capacity, m.custom)
			if len(p.domains) < 2 {
				continue
			}
			c := p.constraint(apartFrom, counter)
			t.types, _ = intersect(t.types, m.types, m.types)
			t.zones, _ = intersect(t.zones, m.zones, m.zones)
			t.capacity, _ = intersect(t.capacity, m.capacity, m.capacity)
			t.custom = m.custom
			p.recordAll(i, -1)
			p.keepOne(&c, of, m)
			p.adopt(m)
			p.recordAll(i, 1)
		}
	}
}

// keepOne chooses one domain in the trial: the cheapest zone or capacity type, the first type or value.
func (p *Packer) keepOne(c *constraint, of *ofTopology, m *machine) {
	t, pool := &p.try, p.pools[m.view]
	switch of.kind {
	case byZone:
		p.decide(nil, c, of, m, t.zones)
	case byCapacity:
		p.decide(nil, c, of, m, t.capacity)
	case byType:
		first := of.domains[next(t.types, 0)]
		for x := next(t.types, 0); x >= 0; x = next(t.types, x+1) {
			if of.domains[x] != first {
				remove(t.types, x)
			}
		}
	case byCustom:
		have, chosen := t.custom.Get(of.key)
		for _, value := range of.values {
			if !chosen || have.Has(value) {
				t.custom = t.custom.And(model.Requirements{model.OneOf(of.key, value)})
				break
			}
		}
	}
	t.pairs = pool.pairs(t.pairs, t.zones, t.capacity)
	for x := next(t.types, 0); x >= 0; x = next(t.types, x+1) {
		if !overlap(pool.offered[x], t.pairs) {
			remove(t.types, x)
		}
	}
}

// softly reports whether taints that are only to be avoided let the form in.
func (f *form) softly(taints []model.Taint) bool {
	return f.wish.soft || !slices.ContainsFunc(taints, func(t model.Taint) bool {
		return t.Effect == model.PreferNoSchedule &&
			!slices.ContainsFunc(f.chain.shape.Tolerations, func(x model.Toleration) bool { return x.Tolerates(t) })
	})
}
