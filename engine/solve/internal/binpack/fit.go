package binpack

import "slices"

// fitting turns patterns of loose items into patterns of the items themselves: each bin gets the zone, say, in which most of
// what it was to hold is still waiting.
type fitting struct {
	*search
	of     [][]int // by loose item: its items, the most constrained first
	twins  [][]int // by bin: bins of the same size and pool, itself included
	freest []int   // by class: how many bins are open to it
}

// fit buys the loose patterns, bin by bin, as far as items wait for them, fills what stayed free, and packs the rest.
func (s *search) fit(loose []Pattern) ([]Pattern, int64) {
	f := s.fitting()
	f.order = f.order[:0]
	for i, n := range f.left {
		if n > 0 {
			f.order = append(f.order, i)
		}
	}
	var out []Pattern
	var cost int64
	for _, x := range loose {
		for done := 0; done < x.Times && s.steps > 0; {
			l := f.choose(&x)
			if l.bin < 0 {
				break
			}
			// The same again, but not so often that one zone gets everything.
			n := s.affords(l.bin, min(x.Times-done, max(1, s.repeats(l.takes)/4)))
			s.buy(l.bin, l.takes, n)
			done += n
			cost = plus(cost, n, s.p.Bins[l.bin].Price)
			out = append(out, Pattern{Bin: l.bin, Takes: slices.Clone(l.takes), Times: n})
		}
	}
	rest, more := s.greedy()
	return append(out, rest...), plus(cost, 1, more)
}

func (s *search) fitting() *fitting {
	f := &fitting{search: s, of: make([][]int, len(s.p.Loose)), twins: make([][]int, len(s.p.Bins))}
	for i := range s.p.Items {
		c := s.p.Items[i].Class
		for len(f.freest) <= c {
			f.freest = append(f.freest, 0)
		}
		f.of[s.p.Items[i].Loose] = append(f.of[s.p.Items[i].Loose], i)
	}
	for k := range s.p.Bins {
		for c := range f.freest {
			if s.p.Bins[k].Open.Has(c) {
				f.freest[c]++
			}
		}
		for j := range s.p.Bins {
			if s.p.Bins[j].Size == s.p.Bins[k].Size && s.p.Bins[j].Pool == s.p.Bins[k].Pool {
				f.twins[k] = append(f.twins[k], j)
			}
		}
	}
	for _, items := range f.of {
		slices.SortStableFunc(items, func(a, b int) int {
			x, y := &s.p.Items[a], &s.p.Items[b]
			if d := f.freest[x.Class] - f.freest[y.Class]; d != 0 {
				return d
			}
			return len(y.Slots) - len(x.Slots)
		})
	}
	return f
}

// choose fills one bin of the pattern, in the twin where what it holds is worth most beyond its price.
func (f *fitting) choose(x *Pattern) load {
	best, top := load{bin: -1}, 0.0
	for _, k := range f.twins[x.Bin] {
		if !f.allows(k) {
			continue
		}
		l, score := f.try(k, x)
		if score -= float64(f.p.Bins[k].Price); len(l.takes) > 0 && (best.bin < 0 || score > top) {
			best.keep(l)
			top = score
		}
	}
	if best.bin >= 0 {
		f.top(&best)
	}
	return best
}

// top fills what the load leaves free.
func (f *fitting) top(l *load) {
	b := &f.p.Bins[l.bin]
	free := b.Size
	f.admit(l.bin)
	for _, t := range l.takes {
		f.put(t.Item, t.N, &free)
	}
	f.search.choose(b, byShare, &free)
	l.keep(f.unload(l.bin))
}

// try fills one bin with items of the pattern. It gives the load, and its value where what is pressing counts more.
func (f *fitting) try(k int, x *Pattern) (load, float64) {
	b := &f.p.Bins[k]
	free := b.Size
	score := 0.0
	for _, t := range x.Takes {
		want := t.N
		for want > 0 {
			pick := -1
			for _, i := range f.of[t.Item] {
				if f.left[i] <= f.taken[i] || !b.Open.Has(f.p.Items[i].Class) || f.room(i, &free, 1) == 0 {
					continue
				}
				if pick < 0 || f.precedes(i, pick) {
					pick = i
				}
			}
			f.steps -= len(f.of[t.Item])/8 + 1
			if pick < 0 {
				break
			}
			n := max(1, min(want/32, f.room(pick, &free, f.left[pick]-f.taken[pick])))
			f.put(pick, n, &free)
			score += float64(float64(n) * f.value[pick] * f.pressing(pick))
			want -= n
		}
	}
	return f.unload(k), score
}

// pressing is above 1 for items of which much is left and to which few bins are open.
func (f *fitting) pressing(i int) float64 {
	left := float64(f.left[i]) / float64(f.p.Items[i].Count+1)
	return 1 + float64(0.1*left/float64(f.freest[f.p.Items[i].Class]))
}

// precedes reports whether i goes before the item picked so far: what fewer bins are open to, or of what more is left of all
// there was.
func (f *fitting) precedes(i, picked int) bool {
	a, b := f.freest[f.p.Items[i].Class], f.freest[f.p.Items[picked].Class]
	if a != b {
		return a < b
	}
	x, y := float64(f.left[i]-f.taken[i]), float64(f.left[picked]-f.taken[picked])
	return x*float64(f.p.Items[picked].Count) > y*float64(f.p.Items[i].Count)
}
