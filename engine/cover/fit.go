package cover

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
	var out []Pattern
	var cost int64
	for _, x := range loose {
		for done := 0; done < x.Times && s.steps > 0; {
			l := f.choose(&x)
			if l.bin < 0 {
				break
			}
			times := 1 << 30
			for _, t := range l.takes {
				times = min(times, s.left[t.Item]/t.N)
			}
			// The same again, but not so often that one zone gets everything.
			times = min(x.Times-done, max(1, times/4))
			n := 0
			for n < times && s.allows(l.bin) {
				s.buy(l.bin, l.takes)
				n++
			}
			if n == 0 {
				break
			}
			done += n
			cost += int64(n) * s.p.Bins[l.bin].Price
			out = append(out, Pattern{Bin: l.bin, Takes: l.takes, Times: n})
		}
	}
	rest, more := s.greedy()
	return append(out, rest...), cost + more
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

// choose fills one bin of the pattern, in the twin where what it holds is worth most beyond its price. What waits in
// great numbers for few bins counts more.
func (f *fitting) choose(x *Pattern) load {
	best, top := load{bin: -1}, 0.0
	for _, k := range f.twins[x.Bin] {
		if !f.allows(k) {
			continue
		}
		l, score := f.try(k, x)
		if score -= float64(f.p.Bins[k].Price); len(l.takes) > 0 && (best.bin < 0 || score > top) {
			best, top = l, score
		}
	}
	return best
}

func (f *fitting) try(k int, x *Pattern) (load, float64) {
	b := &f.p.Bins[k]
	free := b.Size
	score := 0.0
	var touched []int
	for _, t := range x.Takes {
		want := t.N
		// The longest queue first among equally constrained items, so that none is left over.
		for want > 0 {
			pick := -1
			for _, i := range f.of[t.Item] {
				if f.left[i] <= f.taken[i] || !b.Open.Has(f.p.Items[i].Class) || f.room(i, &free, 1) == 0 {
					continue
				}
				if pick < 0 || f.rank2(i, pick) {
					pick = i
				}
			}
			f.steps -= len(f.of[t.Item])/8 + 1
			if pick < 0 {
				break
			}
			f.put(pick, 1, &free)
			touched = append(touched, pick)
			score += f.value[pick] * (1 + 0.1*float64(f.left[pick])/float64(f.p.Items[pick].Count+1)/float64(f.freest[f.p.Items[pick].Class]))
			want--
		}
	}
	l := load{bin: k}
	slices.Sort(touched)
	for _, i := range slices.Compact(touched) {
		l.takes = append(l.takes, Take{i, f.taken[i]})
		f.taken[i] = 0
		for _, slot := range f.p.Items[i].Slots {
			f.slots[slot] = 0
		}
	}
	clear(f.banned)
	return l, score
}

// rank2 reports whether i goes before the item picked so far.
func (f *fitting) rank2(i, picked int) bool {
	a, b := f.freest[f.p.Items[i].Class], f.freest[f.p.Items[picked].Class]
	if a != b {
		return a < b
	}
	return f.left[i]-f.taken[i] > f.left[picked]-f.taken[picked]
}
