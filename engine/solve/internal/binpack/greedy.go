package binpack

import "slices"

const (
	tries     = 6  // bins that are filled in every manner before one is taken
	fewTries  = 2  // the same where there are many items: what greedy finds is then only a beginning
	repricing = 12 // times the values are found anew while all that waits is bought
	portions  = 60 // the same bin is not bought for more than such a part of all before others are looked at
)

// greedy buys bins until nothing waits that one could hold. It gives what was bought and the cost.
func (s *search) greedy() ([]Pattern, int64) {
	var out []Pattern
	var cost int64
	var trail []ending
	bound, sold := s.reprice(), 0.0
	portion := 0.0
	for _, i := range s.order {
		portion += float64(s.value[i] * float64(s.left[i]))
	}
	portion /= portions
	var best, closer load
	for len(s.order) > 0 && (s.steps > 0 || len(out) == 0) {
		s.best(&best, &closer)
		if best.bin < 0 {
			break
		}
		if closer.bin >= 0 {
			end := ending{patterns: len(out), cost: cost}
			end.closer.keep(closer)
			trail = append(trail, end)
		}
		times := s.often(&best, portion)
		s.buy(best.bin, best.takes, times)
		out = append(out, Pattern{Bin: best.bin, Takes: slices.Clone(best.takes), Times: times})
		cost = plus(cost, times, s.p.Bins[best.bin].Price)
		sold += float64(float64(times) * best.value)
		waiting := len(s.order)
		s.order = slices.DeleteFunc(s.order, func(i int) bool { return s.left[i] == 0 })
		if !s.fixed && (sold > bound/repricing || len(s.order) < waiting && len(s.order) <= 12) {
			bound, sold = s.reprice(), 0
		}
	}
	return s.closeEarlier(out, cost, trail)
}

// best fills the most promising bins and gives the load that is worth most for its price, and the cheapest that takes all.
func (s *search) best(best, closer *load) {
	best.bin, closer.bin = -1, -1
	top := 0.0
	for _, k := range s.promising() {
		s.last[k] = 0
		s.admit(k)
		for manner := range manners {
			l := s.fill(k, manner)
			if len(l.takes) == 0 {
				break
			}
			r := s.ratio(k, l.value)
			s.last[k] = max(s.last[k], r)
			if best.bin < 0 || r > top {
				best.keep(l)
				top = r
			}
			if l.all && (closer.bin < 0 || s.p.Bins[k].Price < s.p.Bins[closer.bin].Price) {
				closer.keep(l)
			}
		}
	}
}

// promising are the bins whose last fills were worth most for their price, best first.
func (s *search) promising() []int {
	out, most := s.first[:0], tries
	if len(s.order) > mostRows {
		most = fewTries
	}
	for _, k := range s.bins {
		if len(out) == most && s.last[k] <= s.last[out[most-1]] || !s.allows(k) {
			continue
		}
		if len(out) < most {
			out = append(out, k)
		}
		at := len(out) - 1
		for ; at > 0 && s.last[out[at-1]] < s.last[k]; at-- {
			out[at] = out[at-1]
		}
		out[at] = k
	}
	return out
}

// often is how often to buy the load: as often as the same is there again, but for the last times, where another may be
// better, and not for more than a portion.
func (s *search) often(l *load, portion float64) int {
	times := s.repeats(l.takes)
	times = max(1, times-times/4)
	if most := portion / max(l.value, 1e-9); most < float64(times) {
		times = max(1, int(most))
	}
	return s.affords(l.bin, times)
}

// plus adds the price of so many bins, up to what a number can hold.
func plus(cost int64, times int, price int64) int64 {
	const most = 1 << 61
	if price > 0 && int64(times) > (most-cost)/price {
		return most
	}
	return cost + int64(times)*price
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
	if s.waits > 0 && !s.spill && s.steps > 0 && len(trail) > 0 {
		at, cost = 0, plus(trail[0].cost, 1, s.p.Bins[trail[0].closer.bin].Price)
	}
	for i, e := range trail {
		total := plus(e.cost, 1, s.p.Bins[e.closer.bin].Price)
		if (s.spill || s.steps <= 0) && s.waits > 0 {
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
	s.buy(e.closer.bin, e.closer.takes, 1)
	out = append(out[:e.patterns:e.patterns], Pattern{Bin: e.closer.bin, Takes: e.closer.takes, Times: 1})
	return out, cost
}
