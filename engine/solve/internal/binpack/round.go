package binpack

import (
	"math"
	"slices"
)

// worthwhile is the part of its price that a bin must be worth to be bought because of a part of the LP.
const worthwhile = 0.985

// round buys the whole bins of the LP's solution, then bins that begin like those it has parts of, and packs the rest
// greedily if told so.
func (s *search) round(c *configuration, all bool) ([]Pattern, int64) {
	r := &rounding{search: s}
	parts := r.parts(c)
	s.reprice()
	for _, i := range s.order {
		s.value[i] = c.valueOf(i)
	}
	for i := range parts {
		r.whole(&parts[i])
	}
	slices.SortStableFunc(parts, func(a, b part) int { return compareFloat(b.times, a.times) })
	for i := range parts {
		r.complete(&parts[i])
	}
	out, cost := r.out, r.cost
	if !all {
		return out, cost
	}
	rest, more := s.greedy()
	return append(out, rest...), plus(cost, 1, more)
}

// part is a pattern that the LP buys so many times.
type part struct {
	bin   int
	takes []Take
	times float64
}

// rounding buys what the LP says.
type rounding struct {
	*search
	out  []Pattern
	cost int64
}

func (r *rounding) parts(c *configuration) (out []part) {
	for i, col := range c.master.basis {
		if col == nil {
			continue
		}
		if takes := r.compatible(col, c); len(takes) > 0 {
			out = append(out, part{col.bin, takes, c.master.x[i] + 1e-6})
		}
	}
	return out
}

// take buys as often as it can and may.
func (r *rounding) take(bin int, takes []Take, times int) int {
	if times = r.affords(bin, min(times, r.repeats(takes))); times > 0 {
		r.buy(bin, takes, times)
		r.out = append(r.out, Pattern{Bin: bin, Takes: slices.Clone(takes), Times: times})
		r.cost = plus(r.cost, times, r.p.Bins[bin].Price)
	}
	return times
}

// whole buys the whole times of the part. What the LP has too much of is soon gone: then other things take its room.
func (r *rounding) whole(x *part) {
	n := int(x.times)
	x.times -= float64(n)
	n -= r.take(x.bin, x.takes, n)
	for n > 0 && r.steps > 0 {
		bought := r.again(x, n)
		if n -= bought; bought == 0 {
			return
		}
	}
}

// complete buys one more bin that begins like the part, if it is worth its price.
func (r *rounding) complete(x *part) { r.again(x, 1) }

func (r *rounding) again(x *part, times int) int {
	l := r.fillUp(x)
	if len(l.takes) == 0 || l.value < float64(worthwhile*float64(r.p.Bins[x.bin].Price)) {
		return 0
	}
	return r.take(x.bin, l.takes, max(1, min(times, r.repeats(l.takes)/2)))
}

// compatible are the column's takes as far as they can be in a bin together: the LP knows no conflicts, and rounds.
func (s *search) compatible(col *column, c *configuration) []Take {
	free := s.p.Bins[col.bin].Size
	for k, r := range col.rows {
		if n := int(math.Round(col.vals[k] * c.count[r])); n > 0 {
			s.put(c.items[r], s.room(c.items[r], &free, n), &free)
		}
	}
	return slices.Clone(s.unload(col.bin).takes)
}

// fillUp fills a bin with what still waits of the part's takes, and then with anything.
func (s *search) fillUp(x *part) load {
	b := &s.p.Bins[x.bin]
	free := b.Size
	s.admit(x.bin)
	for _, t := range x.takes {
		s.put(t.Item, s.room(t.Item, &free, min(t.N, s.left[t.Item])), &free)
	}
	s.choose(b, byShare, &free)
	return s.unload(x.bin)
}
