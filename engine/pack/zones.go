package pack

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// zoning gives zones to the pods whose constraints look at zones.
type zoning struct {
	*problem
	zone    int            // topology
	host    int            // topology
	shared  map[string]int // by volume: pods that wait and use it
	planned [][]int64      // by counter, domain: pods that were given a zone
	load    []int64        // by domain: what they ask for, to even out what is equal otherwise
}

// assignZones splits groups that spread over zones, keeps those together that must be in one zone, and leaves to engine/grow
// what is neither.
func (p *problem) assignZones() {
	z := &zoning{problem: p, shared: map[string]int{}, zone: p.state.Topology(model.LabelZone), host: p.state.Topology(model.LabelHostname)}
	var spread, near []*group
	waiting := p.groupsLeft()
	for _, g := range waiting {
		p.state.Spreads(g.index) // the State counts for whom it was asked about
		p.state.Near(g.index)
		p.state.Apart(g.index)
		p.state.Owned(g.index)
		for _, v := range g.shape.Volumes {
			z.shared[v.ID] += g.left()
		}
	}
	for _, g := range waiting {
		g.parts = []part{{class: g.class, n: g.left()}}
		if slices.ContainsFunc(p.state.Spreads(g.index), func(t rules.SpreadTerm) bool { return t.Self > t.MaxSkew }) {
			g.refused, g.parts = model.RuleSpread, nil // not even one pod keeps the skew where none is
			continue
		}
		if z.forbid(g); g.rest || g.refused != "" {
			continue
		}
		terms, _ := p.state.Near(g.index)
		switch {
		case !z.regular(g):
			g.rest = true
		case len(terms) > 0:
			near = append(near, g)
		case slices.ContainsFunc(p.state.Spreads(g.index), func(t rules.SpreadTerm) bool { return t.Topology == z.zone }):
			spread = append(spread, g)
		}
	}
	for _, g := range spread {
		z.spread(g, z.feasible(g))
	}
	z.follow(near, waiting)
	for _, g := range waiting {
		if g.rest || g.refused != "" && len(g.parts) == 0 {
			g.parts = nil
		}
	}
}

func (p *problem) groupsLeft() []*group {
	var out []*group
	for _, g := range p.groups {
		if g.left() > 0 {
			out = append(out, g)
		}
	}
	return out
}

// regular reports whether all constraints of the group on other pods are about zones or single machines, and none wants
// others on the same machine or none in the same zone.
func (z *zoning) regular(g *group) bool {
	for _, t := range z.state.Spreads(g.index) {
		if t.Topology != z.zone && t.Topology != z.host {
			return false
		}
	}
	terms, _ := z.state.Near(g.index)
	for _, c := range terms {
		if z.state.CounterTopology(c) != z.zone {
			return false
		}
	}
	for _, c := range z.state.Apart(g.index) {
		if z.state.CounterTopology(c) != z.host {
			return false
		}
	}
	return !slices.ContainsFunc(g.shape.Volumes, func(v model.Volume) bool { return v.Alone || v.Driver != "" && z.shared[v.ID] > 1 })
}

// forbid takes from the group the zones of running pods that want none like it near.
func (z *zoning) forbid(g *group) {
	if z.state.InUse(g.index) {
		g.refused, g.parts = model.RuleVolumeInUse, nil
		return
	}
	var bad []int32
	for _, c := range z.state.Against(g.index) {
		total, unknown := z.state.Counted(int(c))
		switch topology := z.state.CounterTopology(int(c)); {
		case total+unknown == 0 || topology == z.host:
		case topology != z.zone || unknown > 0:
			g.rest = true
			return
		default:
			for _, d := range z.domains(z.everyZone()) {
				if z.state.At(int(c), d) > 0 {
					bad = append(bad, d)
				}
			}
		}
	}
	if bad == nil {
		return
	}
	var good []string
	for _, name := range z.everyZone() {
		if !slices.Contains(bad, z.state.Domain(z.zone, name)) {
			good = append(good, name)
		}
	}
	if len(good) == 0 {
		g.refused, g.parts = model.RuleAntiAffinity, nil
		return
	}
	g.class = z.inZones(g.class, good...)
	g.parts = []part{{class: g.class, n: g.left()}}
}

// everyZone is the zones of all pools, by name.
func (p *problem) everyZone() []string {
	var out []string
	for _, v := range p.views {
		out = append(out, v.Zones...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (z *zoning) domains(zones []string) []int32 {
	out := make([]int32, len(zones))
	for i, name := range zones {
		out[i] = z.state.Domain(z.zone, name)
	}
	return out
}

// feasible is the zones in which a machine can be had for one pod of the group, those first where all of them cost least on
// machines of one type.
func (z *zoning) feasible(g *group) []string {
	rate := map[string]int64{}
	c := z.classes[g.class]
	for vi, v := range z.views {
		for oi := range c.options[vi] {
			o := &c.options[vi][oi]
			for t := range v.Net {
				if !o.Types.Has(t) || !g.request.Fits(v.Net[t]) || !z.policy.Admits(&v.Pool.Types[t].Capacity) {
					continue
				}
				machines := int64(1)
				for _, r := range z.active {
					if g.request[r] > 0 {
						each := max(v.Net[t][r]/g.request[r], 1)
						machines = max(machines, (int64(g.left())+each-1)/each)
					}
				}
				for _, f := range v.Offers[t] {
					if !f.Available || !o.Zones[f.Zone] || !o.Capacity[f.Capacity] {
						continue
					}
					per := int64(f.Price) * machines
					if had, ok := rate[v.Zones[f.Zone]]; !ok || per < had {
						rate[v.Zones[f.Zone]] = per
					}
				}
			}
		}
	}
	out := make([]string, 0, len(rate))
	for name := range rate { // order does not matter: sorted below
		if !z.known.full[served{g.index, name}] {
			out = append(out, name)
		}
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(cmp.Compare(rate[a], rate[b]), cmp.Compare(a, b)) })
	return out
}

// at is what a counter counts in a domain, with what is planned.
func (z *zoning) at(counter int, d int32) int64 {
	n := int64(z.state.At(counter, d))
	if counter < len(z.planned) && d >= 0 && int(d) < len(z.planned[counter]) {
		n += z.planned[counter][d]
	}
	return n
}

// plan counts n pods of the group in a zone.
func (z *zoning) plan(g *group, d int32, n int64) {
	for _, c := range z.state.Counting(g.index) {
		if z.state.CounterTopology(int(c)) != z.zone {
			continue
		}
		for len(z.planned) <= int(c) {
			z.planned = append(z.planned, nil)
		}
		for len(z.planned[c]) <= int(d) {
			z.planned[c] = append(z.planned[c], 0)
		}
		z.planned[c][d] += n
	}
	for len(z.load) <= int(d) {
		z.load = append(z.load, 0)
	}
	z.load[d] += n * (1 + size(g))
}

func (z *zoning) loadOf(d int32) int64 {
	if int(d) >= len(z.load) {
		return 0
	}
	return z.load[d]
}

// constraint is a spread over zones with the domains whose emptiest counts.
type constraint struct {
	rules.SpreadTerm
	universe []int32
}

// spread gives each pod of the group, one after the other, the zone with the fewest of those it spreads among.
func (z *zoning) spread(g *group, zones []string) {
	g.zones = slices.Clone(zones)
	for _, name := range z.known.zones {
		if eligible(g, name) && !slices.Contains(g.zones, name) {
			g.zones = append(g.zones, name)
		}
	}
	domains := z.domains(zones)
	var terms []constraint
	for _, t := range z.state.Spreads(g.index) {
		if t.Topology != z.zone {
			continue
		}
		c := constraint{SpreadTerm: t, universe: slices.Concat(z.state.SpreadDomains(t.Counter), z.domains(g.zones))}
		if t.Counter < len(z.planned) {
			for d, n := range z.planned[t.Counter] {
				if n > 0 {
					c.universe = append(c.universe, int32(d))
				}
			}
		}
		for _, d := range c.universe {
			if name := z.state.DomainName(z.zone, d); !slices.Contains(g.zones, name) {
				g.zones = append(g.zones, name)
			}
		}
		slices.Sort(c.universe)
		c.universe = slices.Compact(c.universe)
		terms = append(terms, c)
	}
	count := make([]int, len(zones))
	for range g.left() {
		best := -1
		for i, d := range domains {
			if z.allowed(terms, d) && (best < 0 || z.emptier(terms, d, domains[best])) {
				best = i
			}
		}
		if best < 0 {
			g.refused = model.RuleSpread
			break
		}
		count[best]++
		z.plan(g, domains[best], 1)
	}
	g.parts = nil
	for i, n := range count {
		if n > 0 {
			g.parts = append(g.parts, part{class: z.inZones(g.class, zones[i]), n: n})
		}
	}
}

// eligible reports whether the group's own requirements let it be in the zone, or count it.
func eligible(g *group, zone string) bool {
	if slices.ContainsFunc(g.shape.Spread, func(c model.Spread) bool { return c.AnyNode }) {
		return true
	}
	return slices.ContainsFunc(rules.Alternatives(g.shape.Required, g.shape.AnyOf), func(wants model.Requirements) bool {
		r, ok := wants.Get(model.LabelZone)
		return !ok || r.Has(zone)
	})
}

// surprises are zones in which machines are planned and that groups which spread over zones did not count with.
func (p *problem) surprises() []string {
	var out []string
	for _, m := range p.machines {
		for _, g := range p.groups {
			if g.zones != nil && !slices.Contains(g.zones, m.chosen.Zone) && eligible(g, m.chosen.Zone) && !slices.Contains(out, m.chosen.Zone) {
				out = append(out, m.chosen.Zone)
			}
		}
	}
	slices.Sort(out)
	return out
}

// unserved are the zones in which pods were to be that got no machine there.
func (p *problem) unserved() []served {
	var out []served
	for _, g := range p.groups {
		for _, x := range g.parts {
			if zones := p.classes[x.class].zones; x.n > 0 && len(zones) == 1 && len(g.shape.Spread)+len(g.shape.Affinity) > 0 && !p.known.full[served{g.index, zones[0]}] {
				out = append(out, served{g.index, zones[0]})
			}
		}
	}
	return out
}

func (z *zoning) allowed(terms []constraint, d int32) bool {
	for i := range terms {
		t := &terms[i]
		least := int64(0)
		if t.MinDomains <= len(t.universe) && len(t.universe) > 0 {
			least = z.at(t.Counter, t.universe[0])
			for _, u := range t.universe[1:] {
				least = min(least, z.at(t.Counter, u))
			}
		}
		if z.at(t.Counter, d)+t.Self-least > t.MaxSkew {
			return false
		}
	}
	return true
}

func (z *zoning) emptier(terms []constraint, a, b int32) bool {
	for i := range terms {
		if x, y := z.at(terms[i].Counter, a), z.at(terms[i].Counter, b); x != y {
			return x < y
		}
	}
	return z.loadOf(a) < z.loadOf(b)
}

// follow gives zones to groups that must be near others: where those are, or are planned. Others that have no zone yet are
// given one. Groups that nobody can precede are left to engine/grow, which finds the reason.
func (z *zoning) follow(near, waiting []*group) {
	for len(near) > 0 {
		var later []*group
		for _, g := range near {
			if !z.join(g) {
				later = append(later, g)
			}
		}
		if len(later) == len(near) && !z.lead(later[0], waiting) {
			later[0].rest = true
			later = later[1:]
		}
		near = later
	}
}

// join places the group near pods that are there, or as the first of its kind; false if it has to wait.
func (z *zoning) join(g *group) bool {
	terms, alone := z.state.Near(g.index)
	zones := z.feasible(g)
	first := alone
	for _, c := range terms {
		total, unknown := z.state.Counted(c)
		if total+unknown > 0 {
			first = false
		}
		for _, name := range z.everyZone() {
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
	if slices.ContainsFunc(z.state.Spreads(g.index), func(t rules.SpreadTerm) bool { return t.Topology == z.zone }) {
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
	terms, _ := z.state.Near(g.index)
	own := z.feasible(g)
	for _, c := range terms {
		for _, h := range waiting {
			if h == g || h.rest || h.refused != "" || len(h.parts) != 1 || len(z.classes[h.parts[0].class].zones) == 1 {
				continue
			}
			if needs, _ := z.state.Near(h.index); len(needs) > 0 || !slices.Contains(z.state.Counting(h.index), int32(c)) {
				continue
			}
			both := slices.DeleteFunc(z.feasible(h), func(name string) bool { return !slices.Contains(own, name) })
			if len(both) > 0 {
				z.settle(h, z.emptiest(h, both))
				return true
			}
		}
	}
	return false
}
