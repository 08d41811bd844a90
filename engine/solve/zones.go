package solve

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// zoning gives zones to the pods whose constraints look at zones.
type zoning struct {
	*problem
	zones   []string         // of all pools, by name
	zone    int              // topology
	host    int              // topology
	shared  map[string]int   // by volume: pods that wait and use it
	reach   map[int][]inZone // by class: see offered
	rated   map[wanted]map[string]int64
	planned [][]int64 // by counter, domain: pods that were given a zone
	load    []int64   // by domain: what they ask for, to even out what is equal otherwise
}

// assignZones splits groups that spread over zones, keeps those together that must be in one zone, and leaves to engine/solve/internal/firstfit
// what is neither.
func (p *problem) assignZones() {
	z := &zoning{problem: p, zones: p.everyZone(), shared: map[string]int{}, reach: map[int][]inZone{}, rated: map[wanted]map[string]int64{}, zone: p.state.Topology(model.LabelZone), host: p.state.Topology(model.LabelHostname)}
	var spread, near []*group
	waiting := p.groupsLeft()
	for _, g := range waiting {
		p.state.SpreadTerms(g.index) // the State counts for whom it was asked about
		p.state.AffinityCounters(g.index)
		p.state.AntiAffinityCounters(g.index)
		p.state.OwnerCounters(g.index)
		for _, v := range g.shape.Volumes {
			z.shared[v.ID] += g.left()
		}
	}
	z.count(waiting)
	for _, g := range waiting {
		g.parts = []part{{class: g.class, n: g.left()}}
		if slices.ContainsFunc(p.state.SpreadTerms(g.index), func(t rules.SpreadTerm) bool { return t.Self > t.MaxSkew }) {
			g.refused, g.parts = model.RuleSpread, nil // not even one pod keeps the skew where none is
			continue
		}
		if z.forbid(g); g.rest || g.refused != "" {
			continue
		}
		terms, _ := p.state.AffinityCounters(g.index)
		switch {
		case !z.regular(g):
			g.rest = true
		case len(terms) > 0:
			near = append(near, g)
		case slices.ContainsFunc(p.state.SpreadTerms(g.index), func(t rules.SpreadTerm) bool { return t.Topology == z.zone }):
			spread = append(spread, g)
		}
	}
	z.spreadAll(spread)
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
	for _, t := range z.state.SpreadTerms(g.index) {
		if t.Topology != z.zone && t.Topology != z.host {
			return false
		}
	}
	terms, _ := z.state.AffinityCounters(g.index)
	for _, c := range terms {
		if z.state.CounterTopology(c) != z.zone {
			return false
		}
	}
	for _, c := range z.state.AntiAffinityCounters(g.index) {
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
	for _, c := range z.state.AvoidedByCounters(g.index) {
		total, unknown := z.state.CountTotal(int(c))
		switch topology := z.state.CounterTopology(int(c)); {
		case total+unknown == 0 || topology == z.host:
		case topology != z.zone || unknown > 0:
			g.rest = true
			return
		default:
			for _, d := range z.domains(z.zones) {
				if z.state.CountIn(int(c), d) > 0 {
					bad = append(bad, d)
				}
			}
		}
	}
	if bad == nil {
		return
	}
	var good []string
	for _, name := range z.zones {
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

// at is what a counter counts in a domain, with what is planned.
func (z *zoning) at(counter int, d int32) int64 {
	n := int64(z.state.CountIn(counter, d))
	if counter < len(z.planned) && d >= 0 && int(d) < len(z.planned[counter]) {
		n += z.planned[counter][d]
	}
	return n
}

// plan counts n pods of the group in a zone.
func (z *zoning) plan(g *group, d int32, n int64) {
	for _, c := range z.state.PodCounters(g.index) {
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
