package binpack

import (
	"math"
	"slices"
)

// load is a bin as a fill left it.
type load struct {
	bin   int
	takes []Take // good until the next fill
	value float64
	all   bool // nothing else waits
}

// keep makes l the load o, in its own memory.
func (l *load) keep(o load) {
	takes := append(l.takes[:0], o.takes...)
	*l = o
	l.takes = takes
}

// manners of filling a bin.
const (
	byValue = iota // dearest items first, as many as fit
	byDot          // again and again the item whose size points most where there is room
	byShare        // again and again the item worth most for the share it takes of what is scarcest
	manners
)

// admit lists what fits into the empty bin, for the fills that follow.
func (s *search) admit(bin int) {
	b := &s.p.Bins[bin]
	s.list = s.list[:0]
	for _, i := range s.order {
		if s.left[i] > 0 && b.Open.Has(s.p.Items[i].Class) && s.room(i, &b.Size, 1) > 0 {
			s.list = append(s.list, i)
		}
	}
	s.steps -= len(s.order)/16 + 1
}

// fill loads the bin with what was admitted.
func (s *search) fill(bin, manner int) load {
	b := &s.p.Bins[bin]
	free := b.Size
	if manner == byValue {
		for _, i := range s.list {
			s.put(i, s.room(i, &free, s.left[i]), &free)
		}
		s.steps -= len(s.list)/16 + 1
	} else {
		s.choose(b, manner, &free)
	}
	return s.unload(bin)
}

// room is how many more of the item the bin can have.
func (s *search) room(i int, free *Vector, most int) int {
	size := s.size(i)
	for d, n := range size {
		if n > free[d] && n > 0 {
			return 0
		}
	}
	if len(s.p.Conflicts) > 0 && s.banned.Has(s.p.Items[i].Kind) {
		return 0
	}
	for _, slot := range s.p.Items[i].Slots {
		most = min(most, s.p.Slots[slot]-s.slots[slot])
	}
	if most <= 1 {
		return max(most, 0)
	}
	for d, n := range size {
		if n > 0 && n > free[d]/int64(most) {
			most = int(free[d] / n)
		}
	}
	return most
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
	for d, size := range s.size(i) {
		free[d] -= int64(n) * size
	}
	for _, slot := range s.p.Items[i].Slots {
		s.slots[slot] += n
	}
	s.joins(i)
	if s.taken[i] == 0 {
		s.takes = append(s.takes, Take{Item: i})
	}
	s.taken[i] += n
}

// choose fills item by item; of an item that fits often, an eighth at a time. A score falls as the bin fills, never rises:
// what scored less before than the best does now needs no second look.
func (s *search) choose(b *Bin, manner int, free *Vector) {
	r := rating{search: s, manner: manner, free: free}
	for d := range s.p.Dims {
		r.full[d] = float64(max(b.Size[d], 1))
	}
	s.scores = s.scores[:0]
	for _, i := range s.list {
		s.scores = append(s.scores, candidate{i, math.Inf(1)})
	}
	for again := -1; ; {
		r.look()
		again = r.pick(again)
		if again < 0 {
			return
		}
		i := s.scores[again].item
		s.put(i, max(1, s.room(i, free, s.left[i]-s.taken[i])/8), free)
	}
}

// candidate is an item with the most it can score; an item that fits no more scores nothing.
type candidate struct {
	item  int
	score float64
}

// rating scores items for what is free.
type rating struct {
	*search
	manner        int
	free          *Vector
	full, inverse [MaxDims]float64
}

// look takes notice of what is free now.
func (r *rating) look() {
	for d := range r.p.Dims {
		if r.manner == byDot {
			r.inverse[d] = float64(r.free[d]) / r.full[d]
		} else {
			r.inverse[d] = 1 / math.Max(float64(r.free[d]), 1e-3)
		}
	}
}

// pick is the candidate that scores best, or -1; what was best before is looked at first.
func (r *rating) pick(again int) int {
	best, top := -1, -1.0
	if again >= 0 {
		r.rescore(again)
		if top = r.scores[again].score; top >= 0 {
			best = again
		}
	}
	work := len(r.scores) / 4
	for k := range r.scores {
		if r.scores[k].score <= top {
			continue
		}
		work++
		if r.rescore(k); r.scores[k].score > top {
			best, top = k, r.scores[k].score
		}
	}
	r.steps -= work/8 + 1
	return best
}

func (r *rating) rescore(k int) {
	c := &r.scores[k]
	if c.score = -1; r.left[c.item] > r.taken[c.item] && r.room(c.item, r.free, 1) > 0 {
		c.score = r.score(c.item)
	}
}

func (r *rating) score(i int) float64 {
	size := r.size(i)
	if r.manner == byDot {
		units := r.prices.unit[r.prices.group[r.p.Items[i].Class]]
		sum := 0.0
		for d, n := range size {
			sum += float64(float64(units[d]*float64(n)) * r.inverse[d])
		}
		for _, slot := range r.p.Items[i].Slots {
			sum += r.prices.slot[slot]
		}
		return sum
	}
	share := 1e-12
	for d, n := range size {
		if x := float64(float64(n) * r.inverse[d]); x > share {
			share = x
		}
	}
	return r.value[i] / share
}

// unload reads the scratch of a fill and clears it.
func (s *search) unload(bin int) load {
	l := load{bin: bin, takes: s.takes}
	slices.SortFunc(s.takes, func(a, b Take) int { return a.Item - b.Item })
	units := 0
	for k := range s.takes {
		t := &s.takes[k]
		t.N = s.taken[t.Item]
		units += t.N
		l.value += float64(float64(t.N) * s.value[t.Item])
		s.taken[t.Item] = 0
		for _, slot := range s.p.Items[t.Item].Slots {
			s.slots[slot] = 0
		}
	}
	l.all = units == s.waits
	clear(s.banned)
	s.takes = s.takes[:0]
	return l
}
