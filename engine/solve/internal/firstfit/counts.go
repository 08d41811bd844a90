package firstfit

import (
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// counts are what machines add to one of the State's counters.
type counts struct {
	topology int
	at       []int32          // by domain: pods on machines that are sure to be in it
	maybe    []int32          // by domain: pods on machines that may be in it, or in another
	host     []int32          // by machine, of the topology hostname
	total    int64            // in at
	on       [][]rules.Option // by view: who counts for a spread; nil if every machine does
}

// counter gives the counts of a counter; those that are new take in the machines that are there.
func (p *Packer) counter(c int) *counts {
	for len(p.counts) <= c {
		i := len(p.counts)
		p.counts = append(p.counts, counts{topology: p.st.CounterTopology(i), on: p.countsOn(i)})
		for m := range p.machines {
			for _, sc := range p.machines[m].shapes {
				if p.isAbout(i, sc.Shape) {
					p.add(i, m, int32(sc.N))
				}
			}
		}
	}
	return &p.counts[c]
}

func (p *Packer) isAbout(c, shape int) bool {
	for _, i := range p.st.PodCounters(shape) {
		if int(i) == c {
			return true
		}
	}
	for _, i := range p.st.OwnerCounters(shape) {
		if i == c {
			return true
		}
	}
	return false
}

// countsOn are the options by which a machine counts for a spread.
func (p *Packer) countsOn(c int) [][]rules.Option {
	shape, spread := p.st.SpreadNodes(c)
	if shape == nil || !spread.Untainted && (spread.AnyNode || len(shape.Required) == 0 && len(shape.AnyOf) == 0) {
		return nil
	}
	out := make([][]rules.Option, len(p.pools))
	for i, pool := range p.pools {
		if _, bad := model.Untolerated(pool.v.Pool.Taints, shape.Tolerations); bad && spread.Untainted {
			continue
		}
		if spread.AnyNode {
			out[i] = pool.v.Options(nil, nil)
			continue
		}
		out[i] = pool.v.Options(shape.Required, shape.AnyOf)
	}
	return out
}

// countable reports whether a machine counts for the spread that the counts are for.
func (c *counts) countable(m *machine) bool {
	if c.on == nil {
		return true
	}
	for i := range c.on[m.view] {
		o := &c.on[m.view][i]
		if overlap(o.Types, m.types) && rules.Compatible(m.custom, o.Custom) &&
			overlap(fromBools(o.Zones), m.zones) && overlap(fromBools(o.Capacity), m.capacity) {
			return true
		}
	}
	return false
}

// record counts n pods of a shape on a machine in all counters that are about them.
func (p *Packer) record(shape, m int, n int32) {
	for _, c := range p.st.PodCounters(shape) {
		p.counter(int(c))
		p.add(int(c), m, n)
	}
	for _, c := range p.st.OwnerCounters(shape) {
		p.counter(c)
		p.add(c, m, n)
	}
}

// add counts n pods on a machine in one counter.
func (p *Packer) add(i, m int, n int32) {
	c := &p.counts[i]
	machine := p.machines[m]
	if !c.countable(machine) {
		return
	}
	p.version++
	t := p.topology(machine.view, c.topology)
	if t.kind == byHost {
		c.host = grown(c.host, m)
		c.host[m] += n
		c.total += int64(n)
		return
	}
	p.domains = p.possible(p.domains[:0], t, machine.types, machine.zones, machine.capacity, machine.custom)
	sure := len(p.domains) == 1
	for _, d := range p.domains {
		if sure {
			c.at = grown(c.at, int(d))
			c.at[d] += n
			c.total += int64(n)
			continue
		}
		c.maybe = grown(c.maybe, int(d))
		c.maybe[d] += n
	}
}

func grown(list []int32, i int) []int32 {
	for len(list) <= i {
		list = append(list, 0)
	}
	return list
}

func get(list []int32, i int) int32 {
	if i < 0 || i >= len(list) {
		return 0
	}
	return list[i]
}

// possible are the domains in which a machine may end.
func (p *Packer) possible(out []int32, t *ofTopology, types, zones, capacity rules.Bits, custom model.Requirements) []int32 {
	switch t.kind {
	case byZone:
		return listed(out, t.domains, zones)
	case byCapacity:
		return listed(out, t.domains, capacity)
	case byType:
		for i := next(types, 0); i >= 0; i = next(types, i+1) {
			out = addOnce(out, t.domains[i])
		}
	case byCustom:
		chosen, ok := custom.Get(t.key)
		for i, d := range t.domains {
			if !ok || chosen.Has(t.values[i]) {
				out = append(out, d)
			}
		}
	}
	return out
}

func listed(out, domains []int32, set rules.Bits) []int32 {
	for i, d := range domains {
		if set.Has(i) {
			out = append(out, d)
		}
	}
	return out
}

func addOnce(out []int32, d int32) []int32 {
	if d < 0 {
		return out
	}
	for _, o := range out {
		if o == d {
			return out
		}
	}
	return append(out, d)
}
