package pack

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/nodeless/nodeless/engine/rules"
)

// candidate is a type of a pool with the cheapest offering that a class may use.
type candidate struct {
	view, typ int
	offer     rules.Offer
	joins     []int16 // by class: the option with which it may use this very offering, -1 if it may not
}

// rate is the least that one unit of a resource costs a class: price/per.
type rate struct {
	price uint64
	per   uint64
}

func (r rate) cheaper(o rate) bool {
	if o.per == 0 || r.per == 0 {
		return o.per == 0 && r.per != 0
	}
	return less(r.price, o.per, o.price, r.per)
}

// less reports whether a×b < c×d, exactly.
func less(a, b, c, d uint64) bool {
	h1, l1 := bits.Mul64(a, b)
	h2, l2 := bits.Mul64(c, d)
	return h1 < h2 || h1 == h2 && l1 < l2
}

// of is the value of an amount, in 1/1024 of model.Price, rounded down.
func (r rate) of(amount int64) uint64 {
	if r.per == 0 || amount <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(r.price<<10, uint64(amount))
	if hi >= r.per {
		return 1 << 62
	}
	q, _ := bits.Div64(hi, lo, r.per)
	return min(q, 1<<62)
}

// price finds the class's rates over all machines it may have. Sums over any one resource bound the cost of any set of
// launches from below; the sum over all resources is what a pod counts for when machines are compared.
func (p *problem) price(c *class) {
	for vi, v := range p.views {
		for oi := range c.options[vi] {
			o := &c.options[vi][oi]
			for t := range v.Net {
				f, ok := cheapest(v, o, t)
				if !ok {
					continue
				}
				for _, i := range p.active {
					if v.Net[t][i] <= 0 {
						continue
					}
					if r := (rate{uint64(f.Price), uint64(v.Net[t][i])}); r.cheaper(c.rates[i]) {
						c.rates[i] = r
					}
				}
			}
		}
	}
}

// valueOf is at most 2^40, so that sums over millions of pods stay within integers.
func (p *problem) valueOf(g *group) uint64 {
	var sum uint64
	for _, i := range p.active {
		sum = min(sum+p.classes[g.class].rates[i].of(g.request[i]), 1<<40)
	}
	return sum
}

// cheapest is the cheapest offering of a type that an option may have now.
func cheapest(v *rules.View, o *rules.Option, t int) (best rules.Offer, ok bool) {
	if !o.Types.Has(t) {
		return best, false
	}
	return cheapestOf(v, t, o.Zones, o.Capacity)
}

func cheapestOf(v *rules.View, t int, zones, capacity []bool) (best rules.Offer, ok bool) {
	for _, f := range v.Offers[t] {
		if f.Available && zones[f.Zone] && capacity[f.Capacity] && (!ok || f.Price < best.Price) {
			best, ok = f, true
		}
	}
	return best, ok
}

// candidates are the machines of a tier worth considering for a class, cheapest first: one per pool and type, without
// those that another beats in price, room and openness.
func (p *problem) candidates(class, tier int) []candidate {
	c := p.classes[class]
	if c.tiers[tier] != nil {
		return c.tiers[tier]
	}
	all := []candidate{}
	for _, vi := range p.tiers[tier] {
		if c.banned[vi] {
			continue
		}
		v := p.views[vi]
		for t := range v.Net {
			best, found := rules.Offer{}, false
			for oi := range c.options[vi] {
				if f, ok := cheapest(v, &c.options[vi][oi], t); ok && (!found || f.Price < best.Price) {
					best, found = f, true
				}
			}
			if found {
				all = append(all, candidate{view: vi, typ: t, offer: best})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.offer.Price, b.offer.Price), p.byRoom(a, b))
	})
	c.tiers[tier] = p.undominated(all)
	return c.tiers[tier]
}

// byRoom puts the machine with more of the first resource that differs before the other.
func (p *problem) byRoom(a, b candidate) int {
	for _, i := range p.active {
		if d := cmp.Compare(p.views[b.view].Net[b.typ][i], p.views[a.view].Net[a.typ][i]); d != 0 {
			return d
		}
	}
	return 0
}

func (p *problem) undominated(all []candidate) []candidate {
	kept := all[:0:0]
	for _, c := range all {
		c.joins = p.joins(&c)
		if !slices.ContainsFunc(kept, func(k candidate) bool { return p.dominates(&k, &c) }) {
			kept = append(kept, c)
		}
	}
	return kept
}

func (p *problem) joins(c *candidate) []int16 {
	out := make([]int16, len(p.classes))
	for ci, cl := range p.classes {
		out[ci] = -1
		for oi := range cl.options[c.view] {
			o := &cl.options[c.view][oi]
			if o.Types.Has(c.typ) && o.Zones[c.offer.Zone] && o.Capacity[c.offer.Capacity] {
				out[ci] = int16(min(oi, 1<<15-1))
				break
			}
		}
	}
	return out
}

// dominates reports whether a, which is no dearer, can do all that b can: same pool, no less room, open to the same pods,
// and no larger where the pool has limits.
func (p *problem) dominates(a, b *candidate) bool {
	if a.view != b.view {
		return false
	}
	v := p.views[a.view]
	for _, i := range p.active {
		if v.Net[a.typ][i] < v.Net[b.typ][i] {
			return false
		}
	}
	for ci := range a.joins {
		if a.joins[ci] < 0 && b.joins[ci] >= 0 {
			return false
		}
	}
	return rules.NoLarger(&v.Pool.Limits, &v.Pool.Types[a.typ].Capacity, &v.Pool.Types[b.typ].Capacity)
}
