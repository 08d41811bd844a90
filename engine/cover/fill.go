package cover

import (
	"math"
	"slices"
)

// search is a solution in the making.
type search struct {
	p      *Problem
	left   []int
	rooms  []Pool
	prices *prices
	value  []float64 // by item, at prices
	order  []int     // items that wait, dearest first
	bins   []int     // that some waiting item may use
	last   []float64 // by bin: value for price of its last fill
	steps  int       // still allowed
	taken  []int     // by item: scratch of a fill
	slots  []int     // by slot: scratch of a fill
	banned Set       // kinds: scratch of a fill
	list   []int     // scratch of a fill
	spill  bool      // see Options
	fixed  bool      // prices and value stay as they are
	among  []int     // bins to choose from; nil = all
	noise  []float64 // by bin: factor on prices of a search that is meant to go astray; nil = none
}

// load is a bin as a fill left it.
type load struct {
	bin   int
	takes []Take
	value float64
	all   bool // nothing else waits
}

// reprice values what is left.
func (s *search) reprice() float64 {
	bound := 0.0
	if !s.fixed {
		s.prices, bound = s.p.pour(s.left)
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
	slices.SortStableFunc(s.order, func(a, b int) int { return compareFloat(s.value[b], s.value[a]) })
	s.rank()
	return bound
}

// revalue values all items anew as if so many waited, and leaves what waits as it is.
func (s *search) revalue(left []int) float64 {
	y, bound := s.p.pour(left)
	s.prices = y
	for i := range s.p.Items {
		s.value[i] = y.of(&s.p.Items[i], s.p.Dims)
	}
	return bound
}

// rank lists the bins that are open to what waits, by what a simple fill of them is worth for its price.
func (s *search) rank() {
	s.bins = s.bins[:0]
	open := NewSet(len(s.prices.group))
	for _, i := range s.order {
		open.Add(s.p.Items[i].Class)
	}
	among := s.among
	if among == nil {
		for k := range s.p.Bins {
			among = append(among, k)
		}
	}
	for _, k := range among {
		s.last[k] = 0
		if s.p.Bins[k].Open.meets(open) && s.allows(k) {
			if l := s.fill(k, byValue); len(l.takes) > 0 {
				s.last[k] = s.ratio(k, l.value)
				s.bins = append(s.bins, k)
			}
		}
	}
}

// ratio is value for price.
func (s *search) ratio(bin int, value float64) float64 {
	price := float64(max(s.p.Bins[bin].Price, 1))
	if s.noise != nil {
		price *= s.noise[bin]
	}
	return value / price
}

// manners of filling a bin.
const (
	byValue = iota // dearest items first, as many as fit
	byDot          // again and again the item whose size points most where there is room
	byShare        // again and again the item worth most for the share it takes of what is scarcest
	manners
)

// fill loads a bin.
func (s *search) fill(bin, manner int) load {
	b := &s.p.Bins[bin]
	free := b.Size
	s.list = s.list[:0]
	for _, i := range s.order {
		if it := &s.p.Items[i]; s.left[i] > 0 && b.Open.Has(it.Class) && fits(s.p.Dims, &it.Size, &free, 1) > 0 {
			s.list = append(s.list, i)
		}
	}
	s.steps -= len(s.order)/8 + 1
	if manner == byValue {
		for _, i := range s.list {
			s.put(i, s.room(i, &free, s.left[i]), &free)
		}
	} else {
		s.choose(b, manner, &free)
	}
	return s.unload(bin)
}

// room is how many more of the item the bin can have.
func (s *search) room(i int, free *Vector, most int) int {
	it := &s.p.Items[i]
	if len(s.p.Conflicts) > 0 && s.banned.Has(it.Kind) {
		return 0
	}
	for _, slot := range it.Slots {
		most = min(most, s.p.Slots[slot]-s.slots[slot])
	}
	if most <= 0 {
		return 0
	}
	return fits(s.p.Dims, &it.Size, free, most)
}

// joins reports whether the item may be with what is in the bin; if so it bans what may not be with it.
func (s *search) joins(i int) bool {
	if len(s.p.Conflicts) == 0 {
		return true
	}
	kind := s.p.Items[i].Kind
	if s.banned.Has(kind) {
		return false
	}
	for w, word := range s.p.Conflicts[kind] {
		s.banned[w] |= word
	}
	return true
}

func (s *search) put(i, n int, free *Vector) {
	if n <= 0 {
		return
	}
	it := &s.p.Items[i]
	for d := range s.p.Dims {
		free[d] -= int64(n) * it.Size[d]
	}
	for _, slot := range it.Slots {
		s.slots[slot] += n
	}
	s.joins(i)
	s.taken[i] += n
}

// choose fills item by item; of an item that fits often, an eighth at a time.
func (s *search) choose(b *Bin, manner int, free *Vector) {
	var full, inverse [MaxDims]float64
	for d := range s.p.Dims {
		full[d] = float64(max(b.Size[d], 1))
	}
	for len(s.list) > 0 {
		for d := range s.p.Dims {
			inverse[d] = 1 / math.Max(float64(free[d]), 1e-3)
		}
		best, top := -1, math.Inf(-1)
		kept := s.list[:0]
		s.steps -= len(s.list)/8 + 1
		for _, i := range s.list {
			if s.left[i] == s.taken[i] || s.room(i, free, 1) == 0 {
				continue
			}
			kept = append(kept, i)
			if score := s.score(i, manner, free, &full, &inverse); score > top {
				best, top = i, score
			}
		}
		s.list = kept
		if best < 0 {
			return
		}
		n := s.room(best, free, s.left[best]-s.taken[best])
		s.put(best, max(1, n/8), free)
	}
}

func (s *search) score(i, manner int, free *Vector, full, inverse *[MaxDims]float64) float64 {
	it := &s.p.Items[i]
	if manner == byDot {
		units := s.prices.unit[s.prices.group[it.Class]]
		sum := 0.0
		for d := range s.p.Dims {
			sum += float64(float64(units[d]*float64(it.Size[d])) * float64(float64(free[d])/full[d]))
		}
		for _, slot := range it.Slots {
			sum += s.prices.slot[slot]
		}
		return sum
	}
	share := 0.0
	for d := range s.p.Dims {
		share = max(share, float64(float64(it.Size[d])*inverse[d]))
	}
	return s.value[i] / max(share, 1e-12)
}

// unload reads the scratch of a fill and clears it.
func (s *search) unload(bin int) load {
	l := load{bin: bin, all: true}
	for _, i := range s.order {
		n := s.taken[i]
		if n < s.left[i] {
			l.all = false
		}
		if n == 0 {
			continue
		}
		l.takes = append(l.takes, Take{i, n})
		l.value += float64(float64(n) * s.value[i])
		s.taken[i] = 0
		for _, slot := range s.p.Items[i].Slots {
			s.slots[slot] = 0
		}
	}
	clear(s.banned)
	return l
}
