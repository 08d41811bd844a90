package solve

import (
	"cmp"
	"maps"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// exactly is up to how many pods the cheapest machines are counted out one by one; beyond, the rest is bought at the best
// rate.
const exactly = 32

// feasible is the zones in which a machine can be had for one pod of the group, those first where n of them would cost least
// with nobody beside them.
func (z *zoning) feasible(g *group, n int) []string {
	rate := z.rates(g, n)
	g.rates = rate
	out := make([]string, 0, len(rate))
	for name := range rate { // order does not matter: sorted below
		if !z.known.full[served{g.index, name}] {
			out = append(out, name)
		}
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(cmp.Compare(rate[a], rate[b]), cmp.Compare(a, b)) })
	return out
}

// wanted is what rates depend on.
type wanted struct {
	class   int
	request model.Resources
	pods    int
}

// rates is, by zone, what machines for n pods of the group cost there at least. It is not to be changed.
func (z *zoning) rates(g *group, n int) map[string]int64 {
	key := wanted{g.class, g.request, n}
	if had, ok := z.rated[key]; ok {
		return had
	}
	out := z.rate(g, n)
	z.rated[key] = out
	return out
}

func (z *zoning) rate(g *group, n int) map[string]int64 {
	prices := map[string]map[int64]int64{} // by zone and pods that a machine holds
	for _, x := range z.offered(g.class) {
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
		if had, ok := in[holds]; !ok || x.price < had {
			in[holds] = x.price
		}
	}
	out := make(map[string]int64, len(prices))
	for name, in := range prices { // order does not matter: each by itself
		out[name] = leastFor(int64(n), in)
	}
	return out
}

// inZone is a type that can be had in a zone, at its lowest price there.
type inZone struct {
	net   *model.Resources
	zone  string
	price int64
}

// offered are the types that a class may use, zone by zone.
func (z *zoning) offered(class int) []inZone {
	if had, ok := z.reach[class]; ok {
		return had
	}
	out := []inZone{}
	c := z.classes[class]
	for vi, v := range z.views {
		for t := range v.Net {
			if !z.policy.Admits(&v.Pool.Types[t].Capacity) {
				continue
			}
			first := len(out)
			for _, f := range v.Offers[t] {
				if !f.Available || c.optionIn(vi, t, &f) < 0 {
					continue
				}
				name := v.Zones[f.Zone]
				at := slices.IndexFunc(out[first:], func(x inZone) bool { return x.zone == name })
				if at < 0 {
					out = append(out, inZone{&v.Net[t], name, int64(f.Price)})
				} else {
					out[first+at].price = min(out[first+at].price, int64(f.Price))
				}
			}
		}
	}
	z.reach[class] = out
	return out
}

// leastFor is the least price of machines that hold n pods. prices are by how many a machine holds.
func leastFor(n int64, prices map[int64]int64) int64 {
	var sizes []int64 // none that a larger one undercuts
	for _, size := range slices.Backward(slices.Sorted(maps.Keys(prices))) {
		if len(sizes) == 0 || prices[size] < prices[sizes[len(sizes)-1]] {
			sizes = append(sizes, size)
		}
	}
	cost := int64(0)
	if n > exactly {
		best := slices.MinFunc(sizes, func(a, b int64) int { return cmp.Compare(float64(prices[a])/float64(a), float64(prices[b])/float64(b)) })
		machines := (n - exactly) / best
		cost, n = machines*prices[best], n-machines*best
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
