package pack

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

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
