package solve

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// constraint is a spread over zones with the domains whose emptiest counts.
type constraint struct {
	rules.SpreadTerm
	universe []int32
}

// spreadAll gives zones to groups that spread over them, those with the fewest to choose from first. Pods that find none may
// have one when others have theirs.
func (z *zoning) spreadAll(groups []*group) {
	zones := map[*group][]string{}
	for _, g := range groups {
		zones[g] = z.feasible(g, (g.left()+len(z.zones)-1)/max(len(z.zones), 1))
	}
	slices.SortStableFunc(groups, func(a, b *group) int { return cmp.Compare(len(zones[a]), len(zones[b])) })
	for again := true; again; {
		again = false
		for _, g := range groups {
			if n := z.unassigned(g); n > 0 {
				z.spread(g, zones[g])
				again = again || g.refused == "" || z.unassigned(g) < n
			}
		}
	}
}

// unassigned is how many pods of a group that spreads have no zone yet.
func (z *zoning) unassigned(g *group) int {
	n := g.left()
	if g.zones != nil {
		for _, x := range g.parts {
			n -= x.n
		}
	}
	return n
}

// spread gives each pod of the group, one after the other, a zone that is allowed: the one where pods of the group cost least,
// of equal ones the emptiest.
func (z *zoning) spread(g *group, zones []string) {
	left := z.unassigned(g)
	if g.zones == nil {
		g.parts = nil
	}
	g.refused = ""
	g.zones = slices.Clone(zones)
	for _, name := range z.known.zones {
		if eligible(g, name) && !slices.Contains(g.zones, name) {
			g.zones = append(g.zones, name)
		}
	}
	domains := z.domains(zones)
	var terms []constraint
	for _, t := range z.state.SpreadTerms(g.index) {
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
	if open := z.openTo(g, left, terms, zones, domains); open != nil {
		g.parts = append(g.parts, part{class: z.inZones(g.class, open...), n: left})
		return
	}
	count := make([]int, len(zones))
	room := z.roomFor(g)
	for range left {
		best := -1
		for i, d := range domains {
			if !z.allowed(terms, d) {
				continue
			}
			if best < 0 || g.rates[zones[i]] < g.rates[zones[best]] || g.rates[zones[i]] == g.rates[zones[best]] && z.emptier(terms, d, domains[best]) {
				best = i
			}
		}
		if best < 0 {
			g.refused = model.RuleSpread
			break
		}
		if z.placeIn(g, domains[best], room) {
			continue
		}
		count[best]++
		z.plan(g, domains[best], 1)
	}
	for i, n := range count {
		if n > 0 {
			g.give(z.inZones(g.class, zones[i]), n)
		}
	}
}

// roomFor are nodes that have room for pods of the group once the skew allows them there. Nil for groups with other
// constraints on pods: those are not looked at twice.
func (z *zoning) roomFor(g *group) []int {
	others := len(z.state.SpreadTerms(g.index)) > 1 || len(g.shape.Affinity)+len(g.shape.AntiAffinity) > 0 || len(z.state.AvoidedByCounters(g.index)) > 0
	if others || len(z.s.Nodes) == 0 {
		return nil
	}
	return slices.DeleteFunc(z.state.WithRoom(nodesThatTakePods(z.s), g.request), func(n int) bool { return z.state.Admits(g.index, n) != "" })
}

// placeIn puts a pod of the group where there is room in the domain. It reports whether there was.
func (z *zoning) placeIn(g *group, d int32, room []int) bool {
	for _, n := range room {
		if z.state.DomainOf(z.zone, n) == d && z.state.Admits(g.index, n) == "" {
			z.placeOn(g, n)
			return true
		}
	}
	return false
}

// give adds n pods to the part of the class.
func (g *group) give(class, n int) {
	for i := range g.parts {
		if g.parts[i].class == class {
			g.parts[i].n += n
			return
		}
	}
	g.parts = append(g.parts, part{class: class, n: n})
}

// openTo is the allowed zones where it does not matter how many of the pods go where: even all of them in one keep the skew, and
// nobody else looks at them. Nil if it matters.
func (z *zoning) openTo(g *group, n int, terms []constraint, zones []string, domains []int32) []string {
	own := map[int]bool{}
	for i := range terms {
		own[terms[i].Counter] = true
	}
	for _, c := range z.state.PodCounters(g.index) {
		if z.state.CounterTopology(int(c)) != z.zone {
			continue
		}
		if users := z.users[int(c)]; users > 1 || users == 1 && !own[int(c)] {
			return nil
		}
	}
	var out []string
	for i, d := range domains {
		if !z.allowed(terms, d) {
			continue
		}
		for j := range terms {
			if t := &terms[j]; t.Self > 0 && z.at(t.Counter, d)+int64(n) > t.MaxSkew {
				return nil
			}
		}
		out = append(out, zones[i])
	}
	return out
}

// count counts the groups that look at each counter.
func (z *zoning) count(groups []*group) {
	for _, g := range groups {
		near, _ := z.state.AffinityCounters(g.index)
		looks := slices.Concat(near, z.state.AntiAffinityCounters(g.index))
		for _, t := range z.state.SpreadTerms(g.index) {
			looks = append(looks, t.Counter)
		}
		slices.Sort(looks)
		for _, c := range slices.Compact(looks) {
			z.users[c]++
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
