package binpack

import (
	"math/rand/v2"
	"slices"
)

// most is the most bins that are dissolved at once.
const most = 6

// improve dissolves a few bins at a time, those that earn least and others, and packs what was in them anew; cheaper
// packings stay. bound is what no solution can be cheaper than.
func (s *search) improve(patterns []Pattern, cost int64, bound float64, effort int) ([]Pattern, int64) {
	w := &workshop{s: s, patterns: patterns, cost: cost, chance: rand.New(rand.NewPCG(1, 2))}
	w.rank()
	bins := 0
	for i := range patterns {
		bins = min(bins+patterns[i].Times, patience*effort)
	}
	mark := cost // gains below a ten thousandth of it are none
	for round, gained := 0, 0; round < improveRounds*effort && round-gained < min(patience*effort, 6+6*bins); round++ {
		if s.steps <= 0 || len(w.patterns) == 0 || float64(w.cost) <= bound*close {
			break
		}
		if w.round(round); w.cost < mark-mark/10_000 {
			gained, mark = round, w.cost
		}
	}
	return w.patterns, w.cost
}

// workshop is a solution under improvement.
type workshop struct {
	s        *search
	patterns []Pattern
	cost     int64
	chance   *rand.Rand
	byWaste  []int // patterns, those first that cost most beyond what they hold
	inUse    []int // bins
}

// waste is what a pattern costs beyond the value of what is in it, for its price.
func (w *workshop) waste(x *Pattern) float64 {
	value := 0.0
	for _, t := range x.Takes {
		value += float64(float64(t.N) * w.s.value[t.Item])
	}
	return 1 - value/float64(max(w.s.p.Bins[x.Bin].Price, 1))
}

func (w *workshop) rank() {
	w.patterns = slices.DeleteFunc(w.patterns, func(x Pattern) bool { return x.Times == 0 })
	waste := make([]float64, len(w.patterns))
	w.byWaste = w.byWaste[:0]
	for i := range w.patterns {
		waste[i] = w.waste(&w.patterns[i])
		w.byWaste = append(w.byWaste, i)
	}
	slices.SortStableFunc(w.byWaste, func(a, b int) int { return compareFloat(waste[b], waste[a]) })
	w.inUse = w.inUse[:0]
	for i := range w.patterns {
		w.inUse = append(w.inUse, w.patterns[i].Bin)
	}
	slices.Sort(w.inUse)
	w.inUse = slices.Compact(w.inUse)
}

// victims are patterns of which one bin each is dissolved; a pattern may be in it several times.
func (w *workshop) victims(round int) []int {
	bins := 0
	for i := range w.patterns {
		if bins += w.patterns[i].Times; bins >= most {
			break
		}
	}
	want := min(2+round%(most-1), bins)
	used := map[int]int{}
	var out []int
	for try := 0; len(out) < want && try < 50; try++ {
		var i int
		switch n := len(w.byWaste); {
		case try == 0: // each in turn, the worst ones more often
			i = w.byWaste[w.chance.IntN(1+min(n-1, round/2))]
		case w.chance.IntN(2) == 0:
			i = w.byWaste[w.chance.IntN(min(n, 2*most))]
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

// round dissolves some bins and keeps the new packing if it is no dearer.
func (w *workshop) round(round int) {
	victims := w.victims(round)
	sub, items := w.dissolve(victims)
	var old int64
	for _, i := range victims {
		old += w.s.p.Bins[w.patterns[i].Bin].Price
	}
	left := make([]int, len(sub.Items))
	for i := range sub.Items {
		left[i] = sub.Items[i].Count
	}
	t := newSearch(sub, left, w.roomsWithout(victims), w.s.steps)
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
	if cost > old || cost == old && round%4 > 0 || t.waits > 0 {
		return
	}
	for _, i := range victims {
		w.patterns[i].Times--
	}
	w.s.rooms = t.rooms
	for _, x := range found {
		for k := range x.Takes {
			x.Takes[k].Item = items[x.Takes[k].Item]
		}
		w.patterns = append(w.patterns, x)
	}
	w.cost += cost - old
	w.rank()
}

// dissolve is the problem of packing the victims' items alone, and which item of the whole each of them is.
func (w *workshop) dissolve(victims []int) (*Problem, []int) {
	count := map[int]int{}
	for _, i := range victims {
		for _, t := range w.patterns[i].Takes {
			count[t.Item] += t.N
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

// roomsWithout is what the pools have left once the victims are gone.
func (w *workshop) roomsWithout(victims []int) []Pool {
	rooms := copyRooms(w.s.rooms)
	for _, i := range victims {
		b := &w.s.p.Bins[w.patterns[i].Bin]
		rooms[b.Pool].Count++
		for k, c := range b.Charge {
			rooms[b.Pool].Left[k] += max(c, 0)
		}
	}
	return rooms
}
