package binpack

import (
	"cmp"
	"math"
	"slices"
)

// minWorth is the part of its price that a bin must be worth to be bought for a fraction of the LP.
const minWorth = 0.985

// realize buys what the LP over the rows' patterns says. exact says that rows are items, not cells.
func (s *search) realize(lp *configurationLP, rows *Problem, left []int, exact bool) ([]Pattern, int64) {
	if s.p.Relaxed == nil {
		return s.round(lp, true)
	}
	s.revalue(s.left)
	for i := range s.p.Items {
		it := &s.p.Items[i]
		row, value := &rows.Items[it.Relaxed], lp.itemValue(it.Relaxed)
		if it.Class == row.Class {
			// The value of a row is divided among its items by size.
			if mean := s.prices.of(row, rows.Dims); mean > 0 {
				value *= s.value[i] / mean
			}
		}
		s.value[i] = value
	}
	l := newSearch(rows, left, s.p.Pools, s.steps)
	relaxed, _ := l.round(lp, exact)
	s.steps = l.steps
	return s.disaggregate(relaxed)
}

// round rounds the LP's solution. It (1) buys the whole bins of each pattern, then (2) a further bin that begins like a
// pattern of which a fraction is left, largest fraction first, if it is worth its price, and (3) packs the rest
// greedily, if all is set.
func (s *search) round(lp *configurationLP, all bool) ([]Pattern, int64) {
	r := &rounding{search: s}
	fractions := r.fractions(lp)
	s.reprice()
	for _, i := range s.order {
		s.value[i] = lp.itemValue(i)
	}
	for i := range fractions {
		r.buyWhole(&fractions[i])
	}
	slices.SortStableFunc(fractions, func(a, b fraction) int { return cmp.Compare(b.times, a.times) })
	for i := range fractions {
		r.buyLike(&fractions[i], 1)
	}
	if !all {
		return r.out, r.cost
	}
	rest, more := s.greedy()
	return append(r.out, rest...), addPrice(r.cost, 1, more)
}

// fraction is a pattern, and how many times the LP buys it.
type fraction struct {
	bin   int
	items []ItemCount
	times float64
}

// rounding is what was bought of an LP's solution.
type rounding struct {
	*search
	out  []Pattern
	cost int64
}

func (r *rounding) fractions(lp *configurationLP) (out []fraction) {
	for i, col := range lp.master.basis {
		if col == nil {
			continue
		}
		if items := r.feasible(col, lp); len(items) > 0 {
			out = append(out, fraction{col.bin, items, lp.master.x[i] + 1e-6})
		}
	}
	return out
}

// feasible returns the part of the column's load that a bin can hold: the LP ignores conflicts, and is not exact.
func (r *rounding) feasible(col *column, lp *configurationLP) []ItemCount {
	free := r.p.Bins[col.bin].Size
	for k, row := range col.rows {
		if n := int(math.Round(col.vals[k] * lp.count[row])); n > 0 {
			r.put(lp.items[row], r.room(lp.items[row], &free, n), &free)
		}
	}
	return slices.Clone(r.unload(col.bin).items)
}

// purchase buys the load up to the given number of times, as far as items and the pool allow, and returns how often.
func (r *rounding) purchase(bin int, items []ItemCount, times int) int {
	if times = r.affordable(bin, min(times, r.repeats(items))); times > 0 {
		r.buy(bin, items, times)
		r.out = append(r.out, Pattern{Bin: bin, Items: slices.Clone(items), Times: times})
		r.cost = addPrice(r.cost, times, r.p.Bins[bin].Price)
	}
	return times
}

// buyWhole buys the pattern as often as the LP does, rounded down. Items that the LP uses too often run out: others
// take their room.
func (r *rounding) buyWhole(x *fraction) {
	n := int(x.times)
	x.times -= float64(n)
	n -= r.purchase(x.bin, x.items, n)
	for n > 0 && r.steps > 0 {
		bought := r.buyLike(x, n)
		if n -= bought; bought == 0 {
			return
		}
	}
}

// buyLike buys bins that begin like the pattern, if they are worth their price.
func (r *rounding) buyLike(x *fraction, times int) int {
	l := r.fillUp(x)
	if len(l.items) == 0 || l.value < float64(minWorth*float64(r.p.Bins[x.bin].Price)) {
		return 0
	}
	return r.purchase(x.bin, l.items, max(1, min(times, r.repeats(l.items)/2)))
}

// fillUp fills a bin with the pattern's items that still wait, and then with any items.
func (r *rounding) fillUp(x *fraction) load {
	b := &r.p.Bins[x.bin]
	free := b.Size
	r.admit(x.bin)
	for _, c := range x.items {
		r.put(c.Item, r.room(c.Item, &free, min(c.N, r.left[c.Item])), &free)
	}
	r.fillByScore(b, byDominantShare, &free)
	return r.unload(x.bin)
}
