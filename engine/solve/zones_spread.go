package solve

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// zoneSpread is a spread over zones with the domains over which its global minimum is taken.
type zoneSpread struct {
	rules.SpreadTerm
	universe []int32
}

// spreadAll gives zones to groups that spread over them, those with the fewest possible zones first. Pods without a
// zone are tried again after others get theirs.
func (z *zoning) spreadAll(groups []*group) {
	zones := map[*group][]string{}
	for _, g := range groups {
		if unassigned(g) == 0 { // the limits leave none a node, so none gets one without its zone either
			g.parts = nil
		}
		zones[g] = z.feasible(g, (g.left()+len(z.zones)-1)/max(len(z.zones), 1))
	}
	slices.SortStableFunc(groups, func(a, b *group) int { return cmp.Compare(len(zones[a]), len(zones[b])) })
	for again := true; again; {
		again = false
		for _, g := range groups {
			if n := unassigned(g); n > 0 {
				z.spread(g, zones[g])
				again = again || g.refused == "" || unassigned(g) < n
			}
		}
	}
}

// unassigned returns how many pods of a group that spreads have no zone yet, not counting those that get none.
func unassigned(g *group) int {
	n := min(g.left(), g.atMost)
	if g.zones != nil {
		for _, x := range g.parts {
			n -= x.n
		}
	}
	return n
}

// spread assigns the group's pods to zones one after another: to a zone that keeps the skew and has an existing node
// with room, which takes the pod, else to the cheapest one for the group, or the emptiest of several.
func (z *zoning) spread(g *group, zones []string) {
	left := unassigned(g)
	if g.zones == nil {
		g.parts = nil
	}
	g.refused = ""
	domains := z.domains(zones)
	spreads := z.spreadsOf(g, zones)
	others := z.dependsOnMore(g)
	nodes := z.nodesWithRoom(g, others)
	for left > 0 && z.placeOnNode(g, spreads, nodes, others) {
		left--
	}
	if left == 0 {
		return
	}
	if open := z.freeChoice(g, left, spreads, zones, domains); open != nil {
		g.parts = append(g.parts, part{class: z.classes.inZones(g.class, open...), n: left})
		return
	}
	count := make([]int, len(zones))
	for range left {
		if z.placeOnNode(g, spreads, nodes, others) {
			continue
		}
		best := z.bestZone(g, spreads, zones, domains)
		if best < 0 {
			g.refused = model.RuleSpread
			break
		}
		count[best]++
		z.plan(g, domains[best], 1)
	}
	for i, n := range count {
		if n > 0 {
			g.addPart(z.classes.inZones(g.class, zones[i]), n)
		}
	}
}

// spreadsOf returns the group's spreads over zones, and sets the zones that count as domains: possible zones, zones in
// which an earlier attempt planned nodes, and zones with pods.
func (z *zoning) spreadsOf(g *group, zones []string) []zoneSpread {
	g.zones = slices.Clone(zones)
	for _, name := range z.usedZones {
		if countsZone(g, name) && !slices.Contains(g.zones, name) {
			g.zones = append(g.zones, name)
		}
	}
	var out []zoneSpread
	for _, t := range z.state.SpreadTerms(g.index) {
		if t.Topology != z.zone {
			continue
		}
		universe := slices.Concat(z.state.SpreadDomains(t.Counter), z.domains(g.zones))
		if t.Counter < len(z.planned) {
			for d, n := range z.planned[t.Counter] {
				if n > 0 {
					universe = append(universe, int32(d))
				}
			}
		}
		for _, d := range universe {
			if name := z.state.DomainName(z.zone, d); !slices.Contains(g.zones, name) {
				g.zones = append(g.zones, name)
			}
		}
		slices.Sort(universe)
		out = append(out, zoneSpread{t, slices.Compact(universe)})
	}
	return out
}

// bestZone returns the index of the zone for the group's next pod, or -1.
func (z *zoning) bestZone(g *group, spreads []zoneSpread, zones []string, domains []int32) int {
	best := -1
	for i, d := range domains {
		if !z.keepsSkew(spreads, d) {
			continue
		}
		if best < 0 || g.rates[zones[i]] < g.rates[zones[best]] ||
			g.rates[zones[i]] == g.rates[zones[best]] && z.isEmptier(spreads, d, domains[best]) {
			best = i
		}
	}
	return best
}

// nodesWithRoom returns the existing nodes with room for pods of the group once the skew allows them there. Groups with
// other constraints on pods were placed already as far as possible, except on nodes that are not launched yet.
func (z *zoning) nodesWithRoom(g *group, others bool) []int {
	all := len(z.s.Nodes)
	if all == 0 || others && !z.s.Nodes[all-1].Unlaunched { // those not launched yet come last
		return nil
	}
	nodes := z.state.WithRoom(nodesThatTakePods(z.s), g.request)
	return slices.DeleteFunc(nodes, func(n int) bool {
		return others && !z.s.Nodes[n].Unlaunched || z.state.Admits(g.index, n) != ""
	})
}

// dependsOnMore reports whether the group has other constraints on pods than one spread.
func (z *zoning) dependsOnMore(g *group) bool {
	return len(z.state.SpreadTerms(g.index)) > 1 || len(g.shape.Affinity)+len(g.shape.AntiAffinity) > 0 ||
		len(z.state.AvoidedByCounters(g.index)) > 0
}

// placeOnNode puts a pod of the group on one of the nodes where it keeps the skew. It reports whether one has room.
// others is whether the group has other constraints on pods than one spread.
func (z *zoning) placeOnNode(g *group, spreads []zoneSpread, nodes []int, others bool) bool {
	allows := z.state.Admits
	if others {
		allows = z.state.Allows
	}
	for _, n := range nodes {
		d := z.state.DomainOf(z.zone, n)
		if d >= 0 && allows(g.index, n) == "" && z.keepsSkew(spreads, d) {
			z.state.Bind(g.index, n)
			z.settled = append(z.settled, settled{group: g, pod: g.pods[0], node: n})
			g.pods = g.pods[1:]
			return true
		}
	}
	return false
}

// addPart adds n pods to the part of the class.
func (g *group) addPart(class, n int) {
	if i := slices.IndexFunc(g.parts, func(x part) bool { return x.class == class }); i >= 0 {
		g.parts[i].n += n
		return
	}
	g.parts = append(g.parts, part{class: class, n: n})
}

// freeChoice returns the allowed zones if any division of the pods among them keeps the skew and no other group
// depends on them, else nil.
func (z *zoning) freeChoice(g *group, n int, spreads []zoneSpread, zones []string, domains []int32) []string {
	own := func(c int32) bool {
		return slices.ContainsFunc(spreads, func(t zoneSpread) bool { return t.Counter == int(c) })
	}
	for _, c := range z.state.PodCounters(g.index) {
		if z.state.CounterTopology(int(c)) != z.zone {
			continue
		}
		if lookers := z.lookers[int(c)]; lookers > 1 || lookers == 1 && !own(c) {
			return nil
		}
	}
	var out []string
	for i, d := range domains {
		if !z.keepsSkew(spreads, d) {
			continue
		}
		for j := range spreads {
			if t := &spreads[j]; t.Self > 0 && z.at(t.Counter, d)+int64(n) > t.MaxSkew {
				return nil
			}
		}
		out = append(out, zones[i])
	}
	return out
}

// countsZone reports whether the zone is a domain of the group's spread: its requirements allow the zone, or the
// spread counts every node.
func countsZone(g *group, zone string) bool {
	if slices.ContainsFunc(g.shape.Spread, func(c model.Spread) bool { return c.AnyNode }) {
		return true
	}
	s := g.shape.Scheduled()
	return slices.ContainsFunc(rules.Alternatives(s.Required, s.AnyOf), func(wants model.Requirements) bool {
		r, ok := wants.Get(model.LabelZone)
		return !ok || r.Has(zone)
	})
}

// keepsSkew reports whether one more pod in the domain keeps all skews.
func (z *zoning) keepsSkew(spreads []zoneSpread, d int32) bool {
	for i := range spreads {
		t := &spreads[i]
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

func (z *zoning) isEmptier(spreads []zoneSpread, a, b int32) bool {
	for i := range spreads {
		if x, y := z.at(spreads[i].Counter, a), z.at(spreads[i].Counter, b); x != y {
			return x < y
		}
	}
	return z.loadOf(a) < z.loadOf(b)
}
