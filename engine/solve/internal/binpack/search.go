package binpack

import "slices"

// search is a solution in the making.
type search struct {
	p      *Problem
	sizes  []int64 // by item, p.Dims numbers each
	left   []int
	waits  int // sum of left
	rooms  []Pool
	prices *prices
	value  []float64 // by item, at prices
	order  []int     // items that wait, dearest first
	bins   []int     // that some waiting item may use
	last   []float64 // by bin: value for price of its last fill
	steps  int       // still allowed
	spill  bool      // see Options
	fixed  bool      // prices and value stay as they are
	among  []int     // bins to choose from; nil = all
	noise  []float64 // by bin: factor on prices of a search that is meant to go astray; nil = none

	// Scratch of a fill, empty between fills.
	taken  []int // by item
	slots  []int // by slot
	banned Set   // kinds
	list   []int // items that fit into the empty bin, dearest first
	scores []candidate
	takes  []Take
	first  [tries]int
}

func newSearch(p *Problem, left []int, rooms []Pool, steps int) *search {
	s := &search{
		p: p, left: slices.Clone(left), rooms: copyRooms(rooms), steps: steps, sizes: make([]int64, 0, len(p.Items)*p.Dims),
		value: make([]float64, len(p.Items)), last: make([]float64, len(p.Bins)), taken: make([]int, len(p.Items)),
		slots: make([]int, len(p.Slots)), banned: NewSet(len(p.Conflicts)),
	}
	for i := range p.Items {
		s.sizes = append(s.sizes, p.Items[i].Size[:p.Dims]...)
		s.waits += left[i]
	}
	return s
}

func (s *search) size(i int) []int64 { return s.sizes[i*s.p.Dims : (i+1)*s.p.Dims] }

func copyRooms(rooms []Pool) []Pool {
	out := slices.Clone(rooms)
	for i := range out {
		out[i].Left = slices.Clone(out[i].Left)
	}
	return out
}

// allows reports whether the bin's pool lets it be bought once more.
func (s *search) allows(bin int) bool { return s.affords(bin, 1) > 0 }

// affords is how often the bin's pool lets it be bought, at most most.
func (s *search) affords(bin, most int) int {
	b := &s.p.Bins[bin]
	room := &s.rooms[b.Pool]
	most = min(most, room.Count)
	for i, c := range b.Charge {
		if c > 0 {
			most = int(min(int64(most), max(room.Left[i], 0)/c))
		}
	}
	return max(most, 0)
}

// buy takes the bin so many times.
func (s *search) buy(bin int, takes []Take, times int) {
	b := &s.p.Bins[bin]
	room := &s.rooms[b.Pool]
	room.Count -= times
	for i, c := range b.Charge {
		room.Left[i] -= int64(times) * max(c, 0)
	}
	for _, t := range takes {
		s.left[t.Item] -= t.N * times
		s.waits -= t.N * times
	}
}

// unbuy gives the pattern back.
func (s *search) unbuy(x *Pattern) { s.buy(x.Bin, x.Takes, -x.Times) }

// repeats is how often what waits is enough for the takes.
func (s *search) repeats(takes []Take) int {
	times := 1 << 40
	for _, t := range takes {
		times = min(times, s.left[t.Item]/t.N)
	}
	return times
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
func (s *search) revalue(left []int) {
	s.prices, _ = s.p.pour(left)
	for i := range s.p.Items {
		s.value[i] = s.prices.of(&s.p.Items[i], s.p.Dims)
	}
}

// rank lists the bins that are open to what waits, by what a simple fill of them is worth for its price.
func (s *search) rank() {
	s.bins = s.bins[:0]
	open := NewSet(len(s.prices.group))
	for _, i := range s.order {
		open.Add(s.p.Items[i].Class)
	}
	if s.among == nil {
		for k := range s.p.Bins {
			s.consider(k, open)
		}
	}
	for _, k := range s.among {
		s.consider(k, open)
	}
}

func (s *search) consider(k int, open Set) {
	s.last[k] = 0
	if !s.p.Bins[k].Open.meets(open) || !s.allows(k) {
		return
	}
	s.admit(k)
	if l := s.fill(k, byValue); len(l.takes) > 0 {
		s.last[k] = s.ratio(k, l.value)
		s.bins = append(s.bins, k)
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
