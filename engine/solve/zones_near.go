package solve

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// follow gives zones to groups that must be near others: where those are, or are planned. Others that have no zone yet are
// given one. Groups that nobody can precede are left to engine/solve/internal/firstfit, which finds the reason.
func (z *zoning) follow(near, waiting []*group) {
	for len(near) > 0 {
		var later []*group
		for _, g := range near {
			if !z.join(g) {
				later = append(later, g)
			}
		}
		if len(later) == len(near) && !slices.ContainsFunc(later, func(g *group) bool { return z.lead(g, waiting) }) {
			later[0].rest = true
			later = later[1:]
		}
		near = later
	}
}

// join places the group near pods that are there, or as the first of its kind; false if it has to wait.
func (z *zoning) join(g *group) bool {
	terms, alone := z.state.AffinityCounters(g.index)
	zones := z.feasible(g, g.left())
	first := alone
	for _, c := range terms {
		total, unknown := z.state.CountTotal(c)
		if total+unknown > 0 {
			first = false
		}
		for _, name := range z.zones {
			first = first && z.at(c, z.state.Domain(z.zone, name)) == 0
		}
	}
	if !first {
		zones = slices.DeleteFunc(zones, func(name string) bool {
			return slices.ContainsFunc(terms, func(c int) bool { return z.at(c, z.state.Domain(z.zone, name)) == 0 })
		})
	}
	if len(zones) == 0 {
		return false
	}
	if slices.ContainsFunc(z.state.SpreadTerms(g.index), func(t rules.SpreadTerm) bool { return t.Topology == z.zone }) {
		if first {
			zones = zones[:1]
		}
		z.spread(g, zones)
		return true
	}
	z.settle(g, z.emptiest(g, zones))
	return true
}

// emptiest is, of the cheapest zones, the one with the least load. zones are by price.
func (z *zoning) emptiest(g *group, zones []string) string {
	best := zones[0]
	for _, name := range zones[1:] {
		if z.same(g, zones[0], name) && z.loadOf(z.state.Domain(z.zone, name)) < z.loadOf(z.state.Domain(z.zone, best)) {
			best = name
		}
	}
	return best
}

// same reports whether every type that the group may use in zone a costs the same in b.
func (z *zoning) same(g *group, a, b string) bool {
	c := z.classes[g.class]
	for vi, v := range z.views {
		x, y := slices.Index(v.Zones, a), slices.Index(v.Zones, b)
		for oi := range c.options[vi] {
			o := &c.options[vi][oi]
			for t := range v.Net {
				if o.Types.Has(t) && priceIn(v, o, t, x) < priceIn(v, o, t, y) {
					return false
				}
			}
		}
	}
	return true
}

// priceIn is the lowest price of a type in a zone; the highest there is if it cannot be had.
func priceIn(v *rules.View, o *rules.Option, t, zone int) model.Price {
	least := rules.MaxPrice * 2
	for _, f := range v.Offers[t] {
		if f.Zone == zone && f.Available && o.Zones[f.Zone] && o.Capacity[f.Capacity] {
			least = min(least, f.Price)
		}
	}
	return least
}

func (z *zoning) settle(g *group, zone string) {
	z.plan(g, z.state.Domain(z.zone, zone), int64(g.left()))
	g.parts = []part{{class: z.inZones(g.class, zone), n: g.left()}}
}

// lead gives a zone to a group that the waiting one wants near and that is free to go anywhere.
func (z *zoning) lead(g *group, waiting []*group) bool {
	terms, _ := z.state.AffinityCounters(g.index)
	own := z.feasible(g, g.left())
	for _, c := range terms {
		for _, h := range waiting {
			if h == g || h.rest || h.refused != "" || len(h.parts) != 1 || len(z.classes[h.parts[0].class].zones) == 1 {
				continue
			}
			if needs, _ := z.state.AffinityCounters(h.index); len(needs) > 0 || !slices.Contains(z.state.PodCounters(h.index), int32(c)) {
				continue
			}
			both := slices.DeleteFunc(z.feasible(h, h.left()), func(name string) bool { return !slices.Contains(own, name) })
			if len(both) > 0 {
				z.settle(h, z.emptiest(h, both))
				return true
			}
		}
	}
	return false
}
