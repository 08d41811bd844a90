package solve

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// Below says what a launch must cost less than: really, and as the policy counts.
type Below struct{ Real, Effective model.Price }

// Cheaper narrows a launch so that whatever becomes of it has the capacity type and costs less: to zones in which its best type
// does, and to the types that do in all of these. Beyond the first types it names no more than minValues need, which are
// relaxed no further. It gives the
// launch, how many types were cheap enough, and whether it is one still.
func (x *Places) Cheaper(policy *model.Policy, l model.Launch, capacityType string, below Below, types int) (model.Launch, int, bool) {
	v := *x.viewsOf(x.pods, policy)[slices.IndexFunc(x.pods.Pools, func(p model.Pool) bool { return p.Name == l.Pool })]
	v.MinValues = slices.Clone(v.MinValues)
	rules.Relax(v.MinValues, l.Relaxed)
	n := narrowing{v: &v, below: below, capacity: make([]bool, len(v.Capacities)), zones: make([]bool, len(v.Zones))}
	for c, name := range v.Capacities {
		n.capacity[c] = name == capacityType
	}
	allowed, _ := l.Requirements.Get(model.LabelZone)
	for z, name := range v.Zones {
		n.zones[z] = allowed.Has(name)
	}
	ways := n.ways(l.Types)
	cheap := len(ways)
	if cheap == 0 {
		return l, 0, false
	}
	indices := make([]int, cheap)
	for i, w := range ways {
		indices[i] = w.typ
	}
	kept, ok := v.WithMinValues(indices, min(types, cheap), mostTypes(policy), n.zones, n.capacity)
	if !ok {
		return l, cheap, false
	}
	return n.launch(l, ways, kept), cheap, true
}

// narrowing is what a launch may still become.
type narrowing struct {
	v               *rules.View
	below           Below
	zones, capacity []bool
}

// ways are the cheapest offerings of each type that costs less wherever it may come, cheapest first.
func (n *narrowing) ways(names []string) []way {
	var types []int
	for t := range n.v.Net {
		if slices.Contains(names, n.v.Pool.Types[t].Name) {
			types = append(types, t)
		}
	}
	best := n.cheapest(types)
	if len(best) == 0 {
		return nil
	}
	for z := range n.zones {
		n.zones[z] = n.zones[z] && slices.ContainsFunc(n.v.Offers[best[0].typ], func(f rules.Offer) bool {
			return f.Zone == z && n.open(f) && n.less(f)
		})
	}
	return slices.DeleteFunc(n.cheapest(types), func(w way) bool {
		return slices.ContainsFunc(n.v.Offers[w.typ], func(f rules.Offer) bool { return n.open(f) && !n.less(f) })
	})
}

// cheapest are the cheapest offerings of those types that have one that costs less.
func (n *narrowing) cheapest(types []int) []way {
	var out []way
	for _, t := range types {
		if f, ok := cheapestOf(n.v, t, n.zones, n.capacity); ok && n.less(f) {
			out = append(out, way{t, f})
		}
	}
	slices.SortFunc(out, func(a, b way) int {
		return cmp.Or(cmp.Compare(a.offer.Price, b.offer.Price), cmp.Compare(a.typ, b.typ))
	})
	return out
}

func (n *narrowing) open(f rules.Offer) bool {
	return f.Available && n.zones[f.Zone] && n.capacity[f.Capacity]
}

func (n *narrowing) less(f rules.Offer) bool {
	return f.Real < n.below.Real && f.Price < n.below.Effective
}

// launch is the launch with these ways alone.
func (n *narrowing) launch(l model.Launch, ways []way, kept []int) model.Launch {
	before := slices.IndexFunc(n.v.Pool.Types, func(t model.InstanceType) bool { return t.Name == l.Chosen.Type })
	l.Requests = l.Requests.Minus(n.v.Overhead[before]).Plus(n.v.Overhead[kept[0]])
	l.Types, l.RunnerUp = nil, model.Candidate{}
	var zones, capacity []string
	for i, t := range kept {
		w := ways[slices.IndexFunc(ways, func(w way) bool { return w.typ == t })]
		switch i {
		case 0:
			l.Chosen = candidateOf(n.v, w)
		case 1:
			l.RunnerUp = candidateOf(n.v, w)
		}
		l.Types = append(l.Types, n.v.Pool.Types[t].Name)
		for _, f := range n.v.Offers[t] {
			if n.open(f) {
				zones, capacity = append(zones, n.v.Zones[f.Zone]), append(capacity, n.v.Capacities[f.Capacity])
			}
		}
	}
	l.Requirements = l.Requirements.And(model.NewRequirements(model.OneOf(model.LabelInstanceType, l.Types...),
		model.OneOf(model.LabelZone, zones...), model.OneOf(model.LabelCapacityType, capacity...)))
	l.ID = digest(identityOf(&l), l.Pods)
	return l
}
