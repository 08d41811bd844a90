package solve

import (
	"slices"
)

// surprises are zones in which machines are planned and that groups which spread over zones did not count with.
func (p *problem) surprises() []string {
	var out []string
	for _, m := range p.machines {
		if !slices.Contains(out, m.chosen.Zone) {
			out = append(out, m.chosen.Zone)
		}
	}
	out = slices.DeleteFunc(out, func(zone string) bool {
		return !slices.ContainsFunc(p.groups, func(g *group) bool {
			return g.zones != nil && !slices.Contains(g.zones, zone) && eligible(g, zone)
		})
	})
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
