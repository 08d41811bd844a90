package solve

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// way is one offering that can bear a load.
type way struct {
	typ   int
	offer rules.Offer
}

// ways are the cheapest offerings of each type that bears the load, cheapest first; of equally cheap ones what the pods
// prefer first. Types that are too dear to stand in are left out where nothing can need them.
func (p *problem) ways(m *machine) []way {
	v := p.views[m.view]
	all := len(v.MinValues) > 0 || rules.Limited(&v.Pool.Limits) || p.policy.MaxTypes == everyType
	var out []way
	least := rules.MaxPrice * 2
	for _, c := range p.byPrice(m.view) {
		if !all && (len(out) >= 2 && c.price > least/100*tooDear || len(out) >= fewTypes && c.price > least/100*muchDearer) {
			break
		}
		if !m.open.Has(c.typ) || !p.bears(m, c.typ) {
			continue
		}
		if f, ok := cheapestOf(v, c.typ, m.zones, m.capacity); ok {
			out = append(out, way{typ: c.typ, offer: f})
			least = min(least, f.Price)
		}
	}
	slices.SortFunc(out, func(a, b way) int {
		return cmp.Or(cmp.Compare(a.offer.Price, b.offer.Price), cmp.Compare(a.typ, b.typ))
	})
	p.prefer(m, out)
	return out
}

// cheapest is a type with its lowest price anywhere.
type cheapest struct {
	typ   int
	price model.Price
}

// byPrice are the pool's types that can be had, those first that cost least somewhere.
func (p *problem) byPrice(view int) []cheapest {
	if p.ordered == nil {
		p.ordered = make([][]cheapest, len(p.views))
	}
	if p.ordered[view] == nil {
		v := p.views[view]
		out := make([]cheapest, 0, len(v.Net))
		for t := range v.Net {
			if f, ok := cheapestOf(v, t, allTrue(len(v.Zones)), allTrue(len(v.Capacities))); ok && v.Eligible.Has(t) {
				out = append(out, cheapest{t, f.Price})
			}
		}
		slices.SortFunc(out, func(a, b cheapest) int { return cmp.Or(cmp.Compare(a.price, b.price), cmp.Compare(a.typ, b.typ)) })
		p.ordered[view] = out
	}
	return p.ordered[view]
}

// bears reports whether a type has room for the machine's pods and their volumes, and the policy and the limits admit it.
func (p *problem) bears(m *machine, t int) bool {
	v := p.views[m.view]
	x := &v.Pool.Types[t]
	if !m.load.Fits(v.Net[t]) || !p.policy.Admits(&x.Capacity) || !p.rooms[m.view].Allows(&v.Pool.Limits, &x.Capacity) {
		return false
	}
	for _, limit := range x.AttachLimits {
		if n := p.attached(m, limit.Driver); n > 0 && n > limit.Max {
			return false
		}
	}
	return true
}

// attached is how many volumes of the driver the machine's pods have; pods of one shape have the same ones.
func (p *problem) attached(m *machine, driver string) int64 {
	seen := map[string]bool{}
	for _, t := range m.takes {
		for i := range t.group.shape.Volumes {
			if x := &t.group.shape.Volumes[i]; x.Driver == driver {
				seen[x.ID] = true
			}
		}
	}
	return int64(len(seen))
}

func cheapestOf(v *rules.View, t int, zones, capacity []bool) (best rules.Offer, ok bool) {
	for _, f := range v.Offers[t] {
		if f.Available && zones[f.Zone] && capacity[f.Capacity] && (!ok || f.Price < best.Price) {
			best, ok = f, true
		}
	}
	return best, ok
}

// prefer moves, among the cheapest ways, the one that satisfies most preferences to the front.
func (p *problem) prefer(m *machine, ways []way) {
	if len(ways) == 0 || p.policy.Preferences == model.Ignore ||
		!slices.ContainsFunc(m.takes, func(t take) bool { return len(t.group.shape.Preferred) > 0 }) {
		return
	}
	v := p.views[m.view]
	least := ways[0].offer.Price
	best, bestScore := way{}, int64(-1<<62)
	for _, w := range ways {
		if w.offer.Price > least {
			break
		}
		for _, f := range v.Offers[w.typ] {
			if f.Price > least || !f.Available || !m.zones[f.Zone] || !m.capacity[f.Capacity] {
				continue
			}
			if score := p.score(m, v.LabelsOf(w.typ, f)); score > bestScore {
				best, bestScore = way{typ: w.typ, offer: f}, score
			}
		}
	}
	i := slices.IndexFunc(ways, func(w way) bool { return w.typ == best.typ })
	copy(ways[1:i+1], ways[:i])
	ways[0] = best
}

func (p *problem) score(m *machine, labels model.Requirements) int64 {
	labels = labels.And(m.custom)
	var sum int64
	for _, t := range m.takes {
		sum += int64(t.n) * rules.Score(t.group.shape.Preferred, labels)
	}
	return sum
}

func and(into, other []bool) {
	for i := range into {
		into[i] = into[i] && other[i]
	}
}

func allTrue(n int) []bool {
	out := make([]bool, n)
	for i := range out {
		out[i] = true
	}
	return out
}
