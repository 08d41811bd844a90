package solve

import (
	"cmp"
	"maps"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// maxExactPods is the number of pods up to which the cheapest nodes are found exactly; further pods are priced at the
// best rate.
const maxExactPods = 32

// feasible returns the zones that have an offering for one pod of the group, sorted by what nodes for n of them alone
// would cost there.
func (z *zoning) feasible(g *group, n int) []string {
	g.rates = z.ratesFor(g, n)
	out := make([]string, 0, len(g.rates))
	for name := range g.rates { // order does not matter: sorted below
		if !z.full[shapeZone{g.index, name}] {
			out = append(out, name)
		}
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(cmp.Compare(g.rates[a], g.rates[b]), cmp.Compare(a, b)) })
	return out
}

// zoneRates is, by zone, the lowest cost of nodes for some pods there. It must not be changed.
type zoneRates = map[string]int64

// rateKey is what rates depend on.
type rateKey struct {
	class   int
	request model.Resources
	pods    int
}

// ratesFor returns the rates for n pods of the group.
func (z *zoning) ratesFor(g *group, n int) zoneRates {
	key := rateKey{g.class, g.request, n}
	if known, ok := z.rated[key]; ok {
		return known
	}
	prices := map[string]map[int64]int64{} // by zone and number of pods that a node holds
	for _, x := range z.offeredTo(g.class) {
		if !g.request.Fits(*x.net) {
			continue
		}
		holds := int64(max(n, 1))
		for _, r := range z.active {
			if g.request[r] > 0 {
				holds = min(holds, max(x.net[r]/g.request[r], 1))
			}
		}
		in := prices[x.zone]
		if in == nil {
			in = map[int64]int64{}
			prices[x.zone] = in
		}
		if known, ok := in[holds]; !ok || x.price < known {
			in[holds] = x.price
		}
	}
	out := make(zoneRates, len(prices))
	for name, in := range prices { // order does not matter: each is independent
		out[name] = leastCost(int64(n), in)
	}
	z.rated[key] = out
	return out
}

// zonalType is a type that is available in a zone, at its lowest price there.
type zonalType struct {
	net   *model.Resources
	zone  string
	price int64
}

// offeredTo returns the types that a class may use, zone by zone.
func (z *zoning) offeredTo(class int) []zonalType {
	if known, ok := z.offered[class]; ok {
		return known
	}
	out := []zonalType{}
	c := z.classes.list[class]
	for vi, v := range z.views {
		for t := range v.Net {
			first := len(out)
			for _, f := range v.Offers[t] {
				if !f.Available || c.optionFor(vi, t, &f, true) < 0 {
					continue
				}
				name := v.Zones[f.Zone]
				at := slices.IndexFunc(out[first:], func(x zonalType) bool { return x.zone == name })
				if at < 0 {
					out = append(out, zonalType{&v.Net[t], name, int64(f.Price)})
				} else {
					out[first+at].price = min(out[first+at].price, int64(f.Price))
				}
			}
		}
	}
	z.offered[class] = out
	return out
}

// leastCost returns the lowest price of nodes that hold n pods, by dynamic programming (an unbounded covering
// knapsack). prices are by how many pods a node holds.
func leastCost(n int64, prices map[int64]int64) int64 {
	var sizes []int64 // none that a larger one undercuts
	for _, size := range slices.Backward(slices.Sorted(maps.Keys(prices))) {
		if len(sizes) == 0 || prices[size] < prices[sizes[len(sizes)-1]] {
			sizes = append(sizes, size)
		}
	}
	cost := int64(0)
	if n > maxExactPods {
		rate := func(size int64) float64 { return float64(prices[size]) / float64(size) }
		best := slices.MinFunc(sizes, func(a, b int64) int { return cmp.Compare(rate(a), rate(b)) })
		nodes := (n - maxExactPods) / best
		cost, n = nodes*prices[best], n-nodes*best
	}
	least := make([]int64, n+1) // by pods
	for i := int64(1); i <= n; i++ {
		least[i] = prices[sizes[0]] + least[max(i-sizes[0], 0)]
		for _, size := range sizes[1:] {
			least[i] = min(least[i], prices[size]+least[max(i-size, 0)])
		}
	}
	return cost + least[n]
}

// emptiest returns, of the cheapest zones, the one with the least load. zones are by price.
func (z *zoning) emptiest(g *group, zones []string) string {
	best := zones[0]
	for _, name := range zones[1:] {
		if z.noDearer(g, zones[0], name) && z.loadOf(z.domain(name)) < z.loadOf(z.domain(best)) {
			best = name
		}
	}
	return best
}

// noDearer reports whether no type that the group may use costs more in zone b than in a.
func (z *zoning) noDearer(g *group, a, b string) bool {
	c := z.classes.list[g.class]
	for vi, v := range z.views {
		x, y := slices.Index(v.Zones, a), slices.Index(v.Zones, b)
		for oi := range c.options[vi] {
			o := &c.options[vi][oi]
			for t := range o.Types.All() {
				if priceIn(v, o, t, x) < priceIn(v, o, t, y) {
					return false
				}
			}
		}
	}
	return true
}

// priceIn returns the lowest price of a type in a zone, more than any price if it is not available.
func priceIn(v *rules.View, o *rules.Option, t, zone int) model.Price {
	least := rules.MaxPrice * 2
	for _, f := range v.Offers[t] {
		if f.Zone == zone && f.Available && o.Has(&f) {
			least = min(least, f.Price)
		}
	}
	return least
}
