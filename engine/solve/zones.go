package solve

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// zoning divides among zones the pods whose constraints refer to zones. Pods that it assigned count in planned as if
// they were in their zones already.
type zoning struct {
	*problem
	zones   []string              // of all pools, by name
	zone    int                   // topology
	host    int                   // topology
	volumes map[string]int        // by volume: pods that wait and use it
	offered map[int][]zonalType   // by class: see offeredTo
	rated   map[rateKey]zoneRates // see ratesFor
	planned [][]int64             // by counter, domain: pods that were given a zone
	load    []int64               // by domain: size of these pods, to break ties between zones
}

// assignZones splits groups that spread over zones, gives one zone to groups that need one, and leaves the rest to
// firstfit:
//
//  1. It closes zones with running pods that repel a group.
//  2. Groups that spread choose their zones, those with the fewest possible zones first.
//  3. Groups that must be near other pods follow them.
func (p *problem) assignZones() {
	z := &zoning{
		problem: p, zones: p.market.zones(), volumes: map[string]int{}, offered: map[int][]zonalType{},
		rated: map[rateKey]zoneRates{},
		zone:  p.state.Topology(model.LabelZone), host: p.state.Topology(model.LabelHostname),
	}
	var spread, near []*group
	waiting := p.waiting()
	for _, g := range waiting {
		p.state.SpreadTerms(g.index) // the State counts only for shapes that were queried
		p.state.AffinityCounters(g.index)
		p.state.AntiAffinityCounters(g.index)
		p.state.OwnerCounters(g.index)
		for _, v := range g.shape.Volumes {
			z.volumes[v.ID] += g.left()
		}
	}
	z.countLookers(waiting)
	for _, g := range waiting {
		g.parts = []part{{class: g.class, n: g.left()}}
		terms := p.state.SpreadTerms(g.index)
		if slices.ContainsFunc(terms, func(t rules.SpreadTerm) bool { return t.Self > t.MaxSkew }) {
			g.refused, g.parts = model.RuleSpread, nil // not even one pod in an empty domain keeps the skew
			continue
		}
		if z.closeZones(g); g.leftover || g.refused != "" {
			continue
		}
		affinity, _ := p.state.AffinityCounters(g.index)
		switch {
		case !z.regular(g):
			g.leftover = true
		case len(affinity) > 0:
			near = append(near, g)
		case z.spreadsOverZones(g):
			spread = append(spread, g)
		}
	}
	z.spreadAll(spread)
	z.followAll(near, waiting)
	for _, g := range waiting {
		if g.leftover {
			g.parts = nil
		}
	}
}

// countLookers counts the groups that depend on each counter.
func (z *zoning) countLookers(groups []*group) {
	for _, g := range groups {
		near, _ := z.state.AffinityCounters(g.index)
		counters := slices.Concat(near, z.state.AntiAffinityCounters(g.index))
		for _, t := range z.state.SpreadTerms(g.index) {
			counters = append(counters, t.Counter)
		}
		slices.Sort(counters)
		for _, c := range slices.Compact(counters) {
			z.lookers[c]++
		}
	}
}

func (z *zoning) spreadsOverZones(g *group) bool {
	terms := z.state.SpreadTerms(g.index)
	return slices.ContainsFunc(terms, func(t rules.SpreadTerm) bool { return t.Topology == z.zone })
}

// regular reports whether the group's constraints on other pods have the form that zoning handles: affinity by zone,
// anti-affinity by hostname, spread by either, and no shared or exclusive volumes.
func (z *zoning) regular(g *group) bool {
	for _, t := range z.state.SpreadTerms(g.index) {
		if t.Topology != z.zone && t.Topology != z.host {
			return false
		}
	}
	near, _ := z.state.AffinityCounters(g.index)
	for _, c := range near {
		if z.state.CounterTopology(c) != z.zone {
			return false
		}
	}
	for _, c := range z.state.AntiAffinityCounters(g.index) {
		if z.state.CounterTopology(c) != z.host {
			return false
		}
	}
	return !slices.ContainsFunc(g.shape.Volumes, func(v model.Volume) bool {
		return v.Alone || v.Driver != "" && z.volumes[v.ID] > 1
	})
}

// closeZones closes to the group the zones of running pods whose anti-affinity repels it.
func (z *zoning) closeZones(g *group) {
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
			g.leftover = true
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
		if !slices.Contains(bad, z.domain(name)) {
			good = append(good, name)
		}
	}
	if len(good) == 0 {
		g.refused, g.parts = model.RuleAntiAffinity, nil
		return
	}
	g.class = z.classes.inZones(g.class, good...)
	g.parts = []part{{class: g.class, n: g.left()}}
}

func (z *zoning) domain(zone string) int32 { return z.state.Domain(z.zone, zone) }

func (z *zoning) domains(zones []string) []int32 {
	out := make([]int32, len(zones))
	for i, name := range zones {
		out[i] = z.domain(name)
	}
	return out
}

// at returns what a counter counts in a domain, including planned pods.
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
		z.planned[c] = extended(z.planned[c], d)
		z.planned[c][d] += n
	}
	z.load = extended(z.load, d)
	z.load[d] += n * (1 + size(g))
}

func extended(list []int64, d int32) []int64 {
	for len(list) <= int(d) {
		list = append(list, 0)
	}
	return list
}

func (z *zoning) loadOf(d int32) int64 {
	if int(d) >= len(z.load) {
		return 0
	}
	return z.load[d]
}

// followAll gives zones to groups that must be near other pods: zones in which those pods run or are planned. If
// those have no zone yet, it chooses one for them. Groups that wait for each other are left to firstfit, which finds
// the reason.
func (z *zoning) followAll(near, waiting []*group) {
	for len(near) > 0 {
		var later []*group
		for _, g := range near {
			if !z.follow(g) {
				later = append(later, g)
			}
		}
		leads := func(g *group) bool { return z.lead(g, waiting) }
		if len(later) == len(near) && !slices.ContainsFunc(later, leads) {
			later[0].leftover = true
			later = later[1:]
		}
		near = later
	}
}

// follow gives the group zones that have the pods it must be near, or any zone if it is the first of its kind. It
// returns false if the group has to wait.
func (z *zoning) follow(g *group) bool {
	terms, first := z.state.AffinityCounters(g.index)
	zones := z.feasible(g, g.left())
	absent := func(c int, zone string) bool { return z.at(c, z.domain(zone)) == 0 }
	for _, c := range terms {
		if total, unknown := z.state.CountTotal(c); total+unknown > 0 {
			first = false
		}
		first = first && !slices.ContainsFunc(z.zones, func(zone string) bool { return !absent(c, zone) })
	}
	if !first {
		zones = slices.DeleteFunc(zones, func(zone string) bool {
			return slices.ContainsFunc(terms, func(c int) bool { return absent(c, zone) })
		})
	}
	if len(zones) == 0 {
		return false
	}
	if z.spreadsOverZones(g) {
		if first {
			zones = zones[:1]
		}
		z.spread(g, zones)
		return true
	}
	z.settle(g, z.emptiest(g, zones))
	return true
}

// lead gives a zone to a group that g must be near and that is not bound to a zone. It reports whether there is one.
func (z *zoning) lead(g *group, waiting []*group) bool {
	terms, _ := z.state.AffinityCounters(g.index)
	own := z.feasible(g, g.left())
	for _, c := range terms {
		for _, h := range waiting {
			if h == g || h.leftover || h.refused != "" || len(h.parts) != 1 ||
				len(z.classes.list[h.parts[0].class].zones) == 1 {
				continue
			}
			needs, _ := z.state.AffinityCounters(h.index)
			if len(needs) > 0 || !slices.Contains(z.state.PodCounters(h.index), int32(c)) {
				continue
			}
			both := slices.DeleteFunc(z.feasible(h, h.left()), func(zone string) bool { return !slices.Contains(own, zone) })
			if len(both) > 0 {
				z.settle(h, z.emptiest(h, both))
				return true
			}
		}
	}
	return false
}

// settle gives all pods of the group one zone.
func (z *zoning) settle(g *group, zone string) {
	z.plan(g, z.domain(zone), int64(g.left()))
	g.parts = []part{{class: z.classes.inZones(g.class, zone), n: g.left()}}
}
