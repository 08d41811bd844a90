package binpack

import (
	"cmp"
	"slices"
)

// search is a solution under construction: what still waits, what the pools still allow, and the values by which loads
// are compared. Every purchase goes through it.
type search struct {
	p       *Problem
	sizes   []int64 // by item, p.Dims numbers each
	left    []int   // by item: how many wait
	waiting int     // sum of left
	pools   []Pool  // what is left of them
	prices  *prices
	value   []float64 // by item, at prices
	order   []int     // items that wait, most valuable first
	bins    []int     // that some waiting item may use
	last    []float64 // by bin: value for price of its last fill
	steps   int       // still allowed
	spill   bool      // see Options
	fixed   bool      // prices and value stay as they are
	among   []int     // bins to choose from; nil = all
	noise   []float64 // by bin: factor on prices that diversifies a search; nil = none

	// Scratch of a fill, empty between fills.
	taken  []int // by item
	slots  []int // by slot
	banned Set   // conflict groups
	list   []int // items that fit into the empty bin, most valuable first
	scores []candidate
	items  []ItemCount
	top    [maxBins]int
}

func newSearch(p *Problem, left []int, pools []Pool, steps int) *search {
	s := &search{
		p: p, left: slices.Clone(left), pools: clonePools(pools), steps: steps,
		sizes: make([]int64, 0, len(p.Items)*p.Dims), value: make([]float64, len(p.Items)),
		last: make([]float64, len(p.Bins)), taken: make([]int, len(p.Items)), slots: make([]int, len(p.Slots)),
		banned: NewSet(len(p.Conflicts)),
	}
	for i := range p.Items {
		s.sizes = append(s.sizes, p.Items[i].Size[:p.Dims]...)
		s.waiting += left[i]
	}
	return s
}

func (s *search) size(i int) []int64 { return s.sizes[i*s.p.Dims : (i+1)*s.p.Dims] }

func clonePools(pools []Pool) []Pool {
	out := slices.Clone(pools)
	for i := range out {
		out[i].Left = slices.Clone(out[i].Left)
	}
	return out
}

// affordable returns how often the bin's pool lets it be bought, at most limit.
func (s *search) affordable(bin, limit int) int {
	b := &s.p.Bins[bin]
	pool := &s.pools[b.Pool]
	limit = min(limit, pool.Count)
	for i, c := range b.Charge {
		if c > 0 {
			limit = int(min(int64(limit), max(pool.Left[i], 0)/c))
		}
	}
	return max(limit, 0)
}

// buy buys the loaded bin this many times; a negative number returns bins.
func (s *search) buy(bin int, items []ItemCount, times int) {
	b := &s.p.Bins[bin]
	pool := &s.pools[b.Pool]
	pool.Count -= times
	for i, c := range b.Charge {
		pool.Left[i] -= int64(times) * max(c, 0)
	}
	for _, c := range items {
		s.left[c.Item] -= c.N * times
		s.waiting -= c.N * times
	}
}

// repeats returns how often the same load can be made from the waiting items.
func (s *search) repeats(items []ItemCount) int {
	times := 1 << 40
	for _, c := range items {
		times = min(times, s.left[c.Item]/c.N)
	}
	return times
}

// reprice revalues the waiting items and returns a lower bound on their cost.
func (s *search) reprice() float64 {
	bound := 0.0
	if !s.fixed {
		s.prices, bound = s.p.solveResourceLP(s.left)
	}
	s.order = s.order[:0]
	for i := range s.p.Items {
		if s.left[i] > 0 {
			if !s.fixed {
				s.value[i] = s.prices.of(&s.p.Items[i], s.p.Dims)
			}
			s.order = append(s.order, i)
		}
	}
	slices.SortStableFunc(s.order, func(a, b int) int { return cmp.Compare(s.value[b], s.value[a]) })
	s.rankBins()
	return bound
}

// revalue values all items as if left of them waited, without changing how many wait.
func (s *search) revalue(left []int) {
	s.prices, _ = s.p.solveResourceLP(left)
	for i := range s.p.Items {
		s.value[i] = s.prices.of(&s.p.Items[i], s.p.Dims)
	}
}

// rankBins lists the bins that are open to waiting items, and rates each by a simple fill.
func (s *search) rankBins() {
	s.bins = s.bins[:0]
	open := NewSet(len(s.prices.group))
	for _, i := range s.order {
		open.Add(s.p.Items[i].Class)
	}
	if s.among == nil {
		for k := range s.p.Bins {
			s.rankBin(k, open)
		}
	}
	for _, k := range s.among {
		s.rankBin(k, open)
	}
}

func (s *search) rankBin(k int, open Set) {
	s.last[k] = 0
	if !s.p.Bins[k].Open.intersects(open) || s.affordable(k, 1) == 0 {
		return
	}
	s.admit(k)
	if l := s.fill(k, byValue); len(l.items) > 0 {
		s.last[k] = s.valueForPrice(k, l.value)
		s.bins = append(s.bins, k)
	}
}

func (s *search) valueForPrice(bin int, value float64) float64 {
	price := float64(max(s.p.Bins[bin].Price, 1))
	if s.noise != nil {
		price *= s.noise[bin]
	}
	return value / price
}
