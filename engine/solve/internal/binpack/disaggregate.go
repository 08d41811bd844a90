package binpack

import "slices"

// disaggregation turns patterns of relaxed items into patterns of the items themselves: a bin becomes, for example,
// one in the zone where most of its intended items still wait.
type disaggregation struct {
	*search
	members [][]int // by relaxed item: its items, the most constrained first
	twins   [][]int // by bin: bins of the same size and pool, itself included
	open    []int   // by class: how many bins are open to it
}

// disaggregate buys the relaxed patterns, bin by bin, as far as items wait for them, fills the room left free, and
// packs the remaining items greedily.
func (s *search) disaggregate(relaxed []Pattern) ([]Pattern, int64) {
	f := s.newDisaggregation()
	f.order = f.order[:0]
	for i, n := range f.left {
		if n > 0 {
			f.order = append(f.order, i)
		}
	}
	var out []Pattern
	var cost int64
	for _, x := range relaxed {
		for done := 0; done < x.Times && s.steps > 0; {
			l := f.bestTwin(&x)
			if l.bin < 0 {
				break
			}
			// The same again, but not so often that one zone gets everything.
			n := s.affordable(l.bin, min(x.Times-done, max(1, s.repeats(l.items)/4)))
			s.buy(l.bin, l.items, n)
			done += n
			cost = addPrice(cost, n, s.p.Bins[l.bin].Price)
			out = append(out, Pattern{Bin: l.bin, Items: slices.Clone(l.items), Times: n})
		}
	}
	rest, more := s.greedy()
	return append(out, rest...), addPrice(cost, 1, more)
}

func (s *search) newDisaggregation() *disaggregation {
	f := &disaggregation{search: s, members: make([][]int, len(s.p.Relaxed)), twins: make([][]int, len(s.p.Bins))}
	for i := range s.p.Items {
		c := s.p.Items[i].Class
		for len(f.open) <= c {
			f.open = append(f.open, 0)
		}
		f.members[s.p.Items[i].Relaxed] = append(f.members[s.p.Items[i].Relaxed], i)
	}
	for k := range s.p.Bins {
		for c := range f.open {
			if s.p.Bins[k].Open.Has(c) {
				f.open[c]++
			}
		}
		for j := range s.p.Bins {
			if s.p.Bins[j].Size == s.p.Bins[k].Size && s.p.Bins[j].Pool == s.p.Bins[k].Pool {
				f.twins[k] = append(f.twins[k], j)
			}
		}
	}
	for _, items := range f.members {
		slices.SortStableFunc(items, func(a, b int) int {
			x, y := &s.p.Items[a], &s.p.Items[b]
			if d := f.open[x.Class] - f.open[y.Class]; d != 0 {
				return d
			}
			return len(y.Slots) - len(x.Slots)
		})
	}
	return f
}

// bestTwin loads one bin of the pattern, in the twin where its items are worth most beyond the price.
func (f *disaggregation) bestTwin(x *Pattern) load {
	best, top := load{bin: -1}, 0.0
	for _, k := range f.twins[x.Bin] {
		if f.affordable(k, 1) == 0 {
			continue
		}
		l, score := f.try(k, x)
		if score -= float64(f.p.Bins[k].Price); len(l.items) > 0 && (best.bin < 0 || score > top) {
			best.keep(l)
			top = score
		}
	}
	if best.bin >= 0 {
		f.topUp(&best)
	}
	return best
}

// topUp fills what the load leaves free.
func (f *disaggregation) topUp(l *load) {
	b := &f.p.Bins[l.bin]
	free := b.Size
	f.admit(l.bin)
	for _, c := range l.items {
		f.put(c.Item, c.N, &free)
	}
	f.fillByScore(b, byDominantShare, &free)
	l.keep(f.unload(l.bin))
}

// try fills one bin with items of the pattern. It returns the load, and its value in which scarce items count more.
func (f *disaggregation) try(k int, x *Pattern) (load, float64) {
	b := &f.p.Bins[k]
	free := b.Size
	score := 0.0
	for _, c := range x.Items {
		for want := c.N; want > 0; {
			pick := -1
			for _, i := range f.members[c.Item] {
				if f.left[i] <= f.taken[i] || !b.Open.Has(f.p.Items[i].Class) || f.room(i, &free, 1) == 0 {
					continue
				}
				if pick < 0 || f.precedes(i, pick) {
					pick = i
				}
			}
			f.steps -= len(f.members[c.Item])/8 + 1
			if pick < 0 {
				break
			}
			n := max(1, min(want/32, f.room(pick, &free, f.left[pick]-f.taken[pick])))
			f.put(pick, n, &free)
			score += float64(float64(n) * f.value[pick] * f.urgency(pick))
			want -= n
		}
	}
	return f.unload(k), score
}

// urgency returns a weight above 1: larger for items of which more is left and to which fewer bins are open.
func (f *disaggregation) urgency(i int) float64 {
	left := float64(f.left[i]) / float64(f.p.Items[i].Count+1)
	return 1 + float64(0.1*left/float64(f.open[f.p.Items[i].Class]))
}

// precedes reports whether item i goes before the item picked so far: the one to which fewer bins are open, then the
// one of which a larger part is left.
func (f *disaggregation) precedes(i, picked int) bool {
	a, b := f.open[f.p.Items[i].Class], f.open[f.p.Items[picked].Class]
	if a != b {
		return a < b
	}
	x, y := float64(f.left[i]-f.taken[i]), float64(f.left[picked]-f.taken[picked])
	return x*float64(f.p.Items[picked].Count) > y*float64(f.p.Items[i].Count)
}
