package binpack

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// maxRemoved is the maximum number of bins that are repacked at once.
const maxRemoved = 6

// improve is a large neighbourhood search: each round removes a few bins, including some that waste most, repacks
// their items, and keeps the new packing if it costs no more. bound is a lower bound on the cost of all solutions.
func (s *search) improve(patterns []Pattern, cost int64, bound float64, effort int) ([]Pattern, int64) {
	w := &improver{s: s, patterns: patterns, cost: cost, chance: rand.New(rand.NewPCG(1, 2))}
	w.rank()
	bins := 0
	for i := range patterns {
		bins = min(bins+patterns[i].Times, patience*effort)
	}
	mark := cost // gains below a ten thousandth of it do not count
	for round, gained := 0, 0; round < improveRounds*effort && round-gained < min(patience*effort, 6+6*bins); round++ {
		if s.steps <= 0 || len(w.patterns) == 0 || float64(w.cost) <= bound*gapTolerance {
			break
		}
		if w.round(round); w.cost < mark-mark/10_000 {
			gained, mark = round, w.cost
		}
	}
	return w.patterns, w.cost
}

// improver is a solution under improvement.
type improver struct {
	s        *search
	patterns []Pattern
	cost     int64
	chance   *rand.Rand // seeded with constants
	byWaste  []int      // patterns, most wasteful first
	inUse    []int      // bins
}

// waste returns the part of a pattern's price that the value of its items does not cover.
func (w *improver) waste(x *Pattern) float64 {
	value := 0.0
	for _, c := range x.Items {
		value += float64(float64(c.N) * w.s.value[c.Item])
	}
	return 1 - value/float64(max(w.s.p.Bins[x.Bin].Price, 1))
}

func (w *improver) rank() {
	w.patterns = slices.DeleteFunc(w.patterns, func(x Pattern) bool { return x.Times == 0 })
	waste := make([]float64, len(w.patterns))
	w.byWaste, w.inUse = w.byWaste[:0], w.inUse[:0]
	for i := range w.patterns {
		waste[i] = w.waste(&w.patterns[i])
		w.byWaste = append(w.byWaste, i)
		w.inUse = append(w.inUse, w.patterns[i].Bin)
	}
	slices.SortStableFunc(w.byWaste, func(a, b int) int { return cmp.Compare(waste[b], waste[a]) })
	slices.Sort(w.inUse)
	w.inUse = slices.Compact(w.inUse)
}

// pick chooses the patterns that lose one bin each; a pattern may be chosen several times.
func (w *improver) pick(round int) []int {
	bins := 0
	for i := range w.patterns {
		if bins += w.patterns[i].Times; bins >= maxRemoved {
			break
		}
	}
	want := min(2+round%(maxRemoved-1), bins)
	used := map[int]int{}
	var out []int
	for try := 0; len(out) < want && try < 50; try++ {
		var i int
		switch n := len(w.byWaste); {
		case try == 0: // each in turn, the worst ones more often
			i = w.byWaste[w.chance.IntN(1+min(n-1, round/2))]
		case w.chance.IntN(2) == 0:
			i = w.byWaste[w.chance.IntN(min(n, 2*maxRemoved))]
		default:
			i = w.byWaste[w.chance.IntN(n)]
		}
		if used[i] < w.patterns[i].Times {
			used[i]++
			out = append(out, i)
		}
	}
	return out
}

// round repacks some bins and keeps the new packing if it costs no more. Rounds differ in whether items are revalued,
// which bins may be bought, and whether prices are perturbed.
func (w *improver) round(round int) {
	removed := w.pick(round)
	sub, items := w.subproblem(removed)
	var old int64
	for _, i := range removed {
		old += w.s.p.Bins[w.patterns[i].Bin].Price
	}
	left := make([]int, len(sub.Items))
	for i := range sub.Items {
		left[i] = sub.Items[i].Count
	}
	t := newSearch(sub, left, w.poolsWithout(removed), w.s.steps)
	if round%4 > 0 {
		t.fixed, t.prices = true, w.s.prices
		for i, whole := range items {
			t.value[i] = w.s.value[whole]
		}
	}
	if round%8 > 0 {
		t.among = w.inUse
	}
	if round%3 > 0 {
		t.noise = make([]float64, len(sub.Bins))
		for k := range t.noise {
			t.noise[k] = 1 + 0.06*w.chance.Float64()
		}
	}
	found, cost := t.greedy()
	w.s.steps = t.steps
	if cost > old || cost == old && round%4 > 0 || t.waiting > 0 {
		return
	}
	for _, i := range removed {
		w.patterns[i].Times--
	}
	w.s.pools = t.pools
	for _, x := range found {
		for k := range x.Items {
			x.Items[k].Item = items[x.Items[k].Item]
		}
		w.patterns = append(w.patterns, x)
	}
	w.cost += cost - old
	w.rank()
}

// subproblem returns the problem of packing the items of the removed bins alone, and the index of each item in the
// whole problem.
func (w *improver) subproblem(removed []int) (*Problem, []int) {
	count := map[int]int{}
	for _, i := range removed {
		for _, c := range w.patterns[i].Items {
			count[c.Item] += c.N
		}
	}
	items := make([]int, 0, len(count))
	for i := range count { // order does not matter: sorted below
		items = append(items, i)
	}
	slices.Sort(items)
	sub := *w.s.p
	sub.Items = make([]Item, len(items))
	for k, i := range items {
		sub.Items[k] = w.s.p.Items[i]
		sub.Items[k].Count = count[i]
	}
	return &sub, items
}

// poolsWithout returns what the pools have left without the removed bins.
func (w *improver) poolsWithout(removed []int) []Pool {
	pools := clonePools(w.s.pools)
	for _, i := range removed {
		b := &w.s.p.Bins[w.patterns[i].Bin]
		pools[b.Pool].Count++
		for k, c := range b.Charge {
			pools[b.Pool].Left[k] += max(c, 0)
		}
	}
	return pools
}
