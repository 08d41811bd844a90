package binpack

import (
	"math"
	"slices"
)

// load is a bin after a fill.
type load struct {
	bin   int
	items []ItemCount // valid until the next fill
	value float64
	all   bool // nothing else waits
}

// keep copies the load o to l, in l's own memory.
func (l *load) keep(o load) {
	items := append(l.items[:0], o.items...)
	*l = o
	l.items = items
}

// Rules for filling a bin.
const (
	byValue         = iota // most valuable items first, as many as fit
	byDotProduct           // repeatedly the item whose size best matches the free room
	byDominantShare        // repeatedly the item of most value for its share of the scarcest dimension
	fillRules
)

// admit lists the items that fit into the empty bin, for the fills that follow.
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

// fill loads the bin with admitted items.
func (s *search) fill(bin, rule int) load {
	b := &s.p.Bins[bin]
	free := b.Size
	if rule == byValue {
		for _, i := range s.list {
			s.put(i, s.room(i, &free, s.left[i]), &free)
		}
		s.steps -= len(s.list)/16 + 1
	} else {
		s.fillByScore(b, rule, &free)
	}
	return s.unload(bin)
}

// room returns how many more of the item the bin can hold, at most limit.
func (s *search) room(i int, free *Vector, limit int) int {
	size := s.size(i)
	for d, n := range size {
		if n > free[d] && n > 0 {
			return 0
		}
	}
	if len(s.p.Conflicts) > 0 && s.banned.Has(s.p.Items[i].Group) {
		return 0
	}
	for _, slot := range s.p.Items[i].Slots {
		limit = min(limit, s.p.Slots[slot]-s.slots[slot])
	}
	if limit <= 1 {
		return max(limit, 0)
	}
	for d, n := range size {
		if n > 0 && n > free[d]/int64(limit) {
			limit = int(free[d] / n)
		}
	}
	return limit
}

// put adds n of the item to the bin and bans what conflicts with it.
func (s *search) put(i, n int, free *Vector) {
	if n <= 0 {
		return
	}
	for d, size := range s.size(i) {
		free[d] -= int64(n) * size
	}
	it := &s.p.Items[i]
	for _, slot := range it.Slots {
		s.slots[slot] += n
	}
	if len(s.p.Conflicts) > 0 && !s.banned.Has(it.Group) {
		for w, word := range s.p.Conflicts[it.Group] {
			s.banned[w] |= word
		}
	}
	if s.taken[i] == 0 {
		s.items = append(s.items, ItemCount{Item: i})
	}
	s.taken[i] += n
}

// fillByScore fills item by item; an item that fits many times, an eighth at a time. A score falls as the bin fills
// and never rises, so an item whose earlier score was below the best current one is not scored again.
func (s *search) fillByScore(b *Bin, rule int, free *Vector) {
	r := scorer{search: s, rule: rule, free: free}
	for d := range s.p.Dims {
		r.full[d] = float64(max(b.Size[d], 1))
	}
	s.scores = s.scores[:0]
	for _, i := range s.list {
		s.scores = append(s.scores, candidate{i, math.Inf(1)})
	}
	for picked := -1; ; {
		r.update()
		if picked = r.pick(picked); picked < 0 {
			return
		}
		i := s.scores[picked].item
		s.put(i, max(1, s.room(i, free, s.left[i]-s.taken[i])/8), free)
	}
}

// candidate is an item with an upper bound on its score, negative if it no longer fits.
type candidate struct {
	item  int
	score float64
}

// scorer rates items for the free room.
type scorer struct {
	*search
	rule         int
	free         *Vector
	full, weight [MaxDims]float64
}

// update sets the weights of the dimensions to what is free now.
func (r *scorer) update() {
	for d := range r.p.Dims {
		if r.rule == byDotProduct {
			r.weight[d] = float64(r.free[d]) / r.full[d]
		} else {
			r.weight[d] = 1 / max(float64(r.free[d]), 1e-3)
		}
	}
}

// pick returns the candidate with the highest score, or -1. It looks first at the one that was best before.
func (r *scorer) pick(before int) int {
	best, top := -1, -1.0
	if before >= 0 {
		r.rescore(before)
		if top = r.scores[before].score; top >= 0 {
			best = before
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

func (r *scorer) rescore(k int) {
	c := &r.scores[k]
	if c.score = -1; r.left[c.item] > r.taken[c.item] && r.room(c.item, r.free, 1) > 0 {
		c.score = r.score(c.item)
	}
}

func (r *scorer) score(i int) float64 {
	size := r.size(i)
	if r.rule == byDotProduct {
		units := r.prices.unit[r.prices.group[r.p.Items[i].Class]]
		sum := 0.0
		for d, n := range size {
			sum += float64(float64(units[d]*float64(n)) * r.weight[d])
		}
		for _, slot := range r.p.Items[i].Slots {
			sum += r.prices.slot[slot]
		}
		return sum
	}
	share := 1e-12
	for d, n := range size {
		if x := float64(float64(n) * r.weight[d]); x > share {
			share = x
		}
	}
	return r.value[i] / share
}

// unload returns the load in the scratch of a fill and clears the scratch.
func (s *search) unload(bin int) load {
	l := load{bin: bin, items: s.items}
	slices.SortFunc(s.items, func(a, b ItemCount) int { return a.Item - b.Item })
	units := 0
	for k := range s.items {
		c := &s.items[k]
		c.N = s.taken[c.Item]
		units += c.N
		l.value += float64(float64(c.N) * s.value[c.Item])
		s.taken[c.Item] = 0
		for _, slot := range s.p.Items[c.Item].Slots {
			s.slots[slot] = 0
		}
	}
	l.all = units == s.waiting
	clear(s.banned)
	s.items = s.items[:0]
	return l
}
