package cover

import "slices"

// tries is how many bins are filled in every manner before one is taken.
const tries = 6

func newSearch(p *Problem, left []int, rooms []Pool, steps int) *search {
	kinds := len(p.Conflicts)
	return &search{
		p: p, left: slices.Clone(left), rooms: copyRooms(rooms), steps: steps,
		value: make([]float64, len(p.Items)), last: make([]float64, len(p.Bins)), taken: make([]int, len(p.Items)),
		slots: make([]int, len(p.Slots)), banned: NewSet(kinds),
	}
}

func copyRooms(rooms []Pool) []Pool {
	out := slices.Clone(rooms)
	for i := range out {
		out[i].Left = slices.Clone(out[i].Left)
	}
	return out
}

// allows reports whether the bin's pool lets it be bought once more.
func (s *search) allows(bin int) bool {
	b := &s.p.Bins[bin]
	room := &s.rooms[b.Pool]
	if room.Count <= 0 {
		return false
	}
	for i, c := range b.Charge {
		if c > 0 && c > room.Left[i] {
			return false
		}
	}
	return true
}

// buy takes the pattern once.
func (s *search) buy(bin int, takes []Take) {
	b := &s.p.Bins[bin]
	room := &s.rooms[b.Pool]
	room.Count--
	for i, c := range b.Charge {
		room.Left[i] -= max(c, 0)
	}
	for _, t := range takes {
		s.left[t.Item] -= t.N
	}
}

// unbuy gives the pattern back.
func (s *search) unbuy(x *Pattern) {
	b := &s.p.Bins[x.Bin]
	room := &s.rooms[b.Pool]
	room.Count += x.Times
	for i, c := range b.Charge {
		room.Left[i] += int64(x.Times) * max(c, 0)
	}
	for _, t := range x.Takes {
		s.left[t.Item] += t.N * x.Times
	}
}

// greedy buys bins until nothing waits that one could hold. It gives what was bought and the cost.
func (s *search) greedy() ([]Pattern, int64) {
	var out []Pattern
	var cost int64
	var trail []ending
	bound, sold := s.reprice(), 0.0
	for len(s.order) > 0 && (s.steps > 0 || len(out) == 0) {
		best, closer := s.best()
		if best.bin < 0 {
			break
		}
		if closer.bin >= 0 {
			trail = append(trail, ending{len(out), cost, closer})
		}
		times := s.commit(best)
		out = append(out, Pattern{Bin: best.bin, Takes: best.takes, Times: times})
		cost += int64(times) * s.p.Bins[best.bin].Price
		sold += float64(float64(times) * best.value)
		waiting := len(s.order)
		s.order = slices.DeleteFunc(s.order, func(i int) bool { return s.left[i] == 0 })
		if !s.fixed && (sold > bound/12 || len(s.order) < waiting && len(s.order) <= 12) {
			bound, sold = s.reprice(), 0
		}
	}
	return s.closeEarlier(out, cost, trail)
}

// best fills the most promising bins and gives the load that is worth most for its price, and the cheapest that takes all.
func (s *search) best() (best, closer load) {
	best.bin, closer.bin = -1, -1
	top := 0.0
	slices.SortStableFunc(s.bins, func(a, b int) int { return compareFloat(s.last[b], s.last[a]) })
	tried := 0
	for _, k := range s.bins {
		if !s.allows(k) {
			continue
		}
		if tried >= tries {
			break
		}
		tried++
		s.last[k] = 0
		for manner := range manners {
			l := s.fill(k, manner)
			if len(l.takes) == 0 {
				break
			}
			r := s.ratio(k, l.value)
			s.last[k] = max(s.last[k], r)
			if best.bin < 0 || r > top {
				best, top = l, r
			}
			if l.all && (closer.bin < 0 || s.p.Bins[k].Price < s.p.Bins[closer.bin].Price) {
				closer = l
			}
		}
	}
	return best, closer
}

// commit buys the load as often as the same is there again, but for the last times, where another may be better.
func (s *search) commit(l load) int {
	times := 1 << 30
	for _, t := range l.takes {
		times = min(times, s.left[t.Item]/t.N)
	}
	times = max(1, times-times/4)
	n := 0
	for n < times && s.allows(l.bin) {
		s.buy(l.bin, l.takes)
		n++
	}
	return n
}

// ending is a place where one bin could have ended the search.
type ending struct {
	patterns int
	cost     int64
	closer   load
}

// closeEarlier ends with a single bin where that is cheaper than what followed.
func (s *search) closeEarlier(out []Pattern, cost int64, trail []ending) ([]Pattern, int64) {
	at := -1
	if s.waiting() && !s.spill && s.steps > 0 && len(trail) > 0 {
		at, cost = 0, trail[0].cost+s.p.Bins[trail[0].closer.bin].Price
	}
	for i, e := range trail {
		total := e.cost + s.p.Bins[e.closer.bin].Price
		if (s.spill || s.steps <= 0) && s.waiting() {
			break
		}
		if total < cost || at < 0 && total == cost && e.patterns+1 < len(out) {
			at, cost = i, total
		}
	}
	if at < 0 {
		return out, cost
	}
	e := trail[at]
	for _, x := range out[e.patterns:] {
		s.unbuy(&x)
	}
	s.buy(e.closer.bin, e.closer.takes)
	out = append(out[:e.patterns:e.patterns], Pattern{Bin: e.closer.bin, Takes: e.closer.takes, Times: 1})
	return out, cost
}
