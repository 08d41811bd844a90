package firstfit

import (
	"math"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// decides reports whether the constraint wants the domain to be known: a spread; an anti-affinity, so that others can be
// elsewhere; and the first pod of a group, which others will follow.
func (f *form) decides(c *constraint) bool {
	return c.need == balance || c.need == apartFrom && !c.wide || c.need == nearPods && f.groups[c.group].free
}

// decide leaves only the zone or capacity type with the fewest pods, of equals the one with the cheapest offering. set is
// that of the trial, asks what comes to the machine's load.
func (p *Packer) decide(asks []ask, c *constraint, of *ofTopology, m *machine, set rules.Bits) bool {
	best := next(set, 0)
	if best >= 0 && next(set, best+1) >= 0 {
		p.reach(asks, m)
		prices := p.try.zonePrices
		if of.kind == byCapacity {
			prices = p.try.capacityPrices
		}
		best = next(set, 0)
		for i := best; i >= 0; i = next(set, i+1) {
			a, b := p.at(c.counter, of.domains[i]), p.at(c.counter, of.domains[best])
			if a < b || a == b && prices[i] < prices[best] {
				best = i
			}
		}
	}
	if best < 0 || !p.bears(c, of, m, of.domains[best]) {
		return false
	}
	clear(set)
	set.Set(best)
	return true
}

// reach leaves the zones and capacity types in which some type that holds the load can be had, before one of them is chosen,
// and finds their least prices.
func (p *Packer) reach(asks []ask, m *machine) {
	t, pool := &p.try, p.pools[m.view]
	t.zonePrices = filledPrices(t.zonePrices, len(pool.v.Zones))
	t.capacityPrices = filledPrices(t.capacityPrices, len(pool.v.Capacities))
	found := false
	for i := next(t.types, 0); i >= 0; i = next(t.types, i+1) {
		if !holds(&pool.v.Net[i], &m.load, asks) {
			continue
		}
		for _, o := range pool.ways[i] {
			if t.zones.Has(o.Zone) && t.capacity.Has(o.Capacity) {
				t.zonePrices[o.Zone] = min(t.zonePrices[o.Zone], o.Price)
				t.capacityPrices[o.Capacity] = min(t.capacityPrices[o.Capacity], o.Price)
				found = true
			}
		}
	}
	if !found {
		return // what is missing is said where types are looked at
	}
	drop(t.zones, t.zonePrices)
	drop(t.capacity, t.capacityPrices)
}

// filledPrices are so many prices that nothing reaches.
func filledPrices(list []model.Price, n int) []model.Price {
	list = list[:0]
	for range n {
		list = append(list, math.MaxInt64)
	}
	return list
}

// drop takes out of a set what cannot be had.
func drop(set rules.Bits, prices []model.Price) {
	for i, price := range prices {
		if price == math.MaxInt64 {
			remove(set, i)
		}
	}
}

// bears reports whether a spread bears that with the domain of a machine the place of the pods it carries is decided too.
func (p *Packer) bears(c *constraint, of *ofTopology, m *machine, domain int32) bool {
	if c.need != balance || len(m.shapes) == 0 {
		return true
	}
	p.domains = p.possible(p.domains[:0], of, m.types, m.zones, m.capacity, m.custom)
	if len(p.domains) < 2 || !p.counter(c.counter).countable(m) {
		return true
	}
	carried := int64(0)
	for _, sc := range m.shapes {
		if p.isAbout(c.counter, sc.Shape) {
			carried += int64(sc.N)
		}
	}
	return int64(p.at(c.counter, domain))+carried+int64(c.self)-int64(c.least) <= int64(c.skew)
}
