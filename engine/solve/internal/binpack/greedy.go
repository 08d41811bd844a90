package binpack

import "slices"

const (
	maxBins      = 6  // bins that are filled by every rule before one is bought
	maxBinsLarge = 2  // the same if there are many items: the greedy's solution is then only a start
	repricings   = 12 // how often items are revalued until all are bought
	portions     = 60 // one load is bought for at most 1/portions of the total value before others are considered
)

// greedy buys bins until no bin can hold a waiting item, and returns the patterns and their cost.
func (s *search) greedy() ([]Pattern, int64) {
	var out []Pattern
	var cost int64
	var endings []ending
	bound, sold := s.reprice(), 0.0
	portion := 0.0
	for _, i := range s.order {
		portion += float64(s.value[i] * float64(s.left[i]))
	}
	portion /= portions
	var best, closer load
	for len(s.order) > 0 && (s.steps > 0 || len(out) == 0) {
		s.fillBest(&best, &closer)
		if best.bin < 0 {
			break
		}
		if closer.bin >= 0 {
			end := ending{patterns: len(out), cost: cost}
			end.closer.keep(closer)
			endings = append(endings, end)
		}
		times := s.howOften(&best, portion)
		s.buy(best.bin, best.items, times)
		out = append(out, Pattern{Bin: best.bin, Items: slices.Clone(best.items), Times: times})
		cost = addPrice(cost, times, s.p.Bins[best.bin].Price)
		sold += float64(float64(times) * best.value)
		waiting := len(s.order)
		s.order = slices.DeleteFunc(s.order, func(i int) bool { return s.left[i] == 0 })
		if !s.fixed && (sold > bound/repricings || len(s.order) < waiting && len(s.order) <= 12) {
			bound, sold = s.reprice(), 0
		}
	}
	return s.endEarlier(out, cost, endings)
}

// fillBest fills the most promising bins. It sets best to the load of most value for its price, and closer to the
// cheapest load that takes all waiting items.
func (s *search) fillBest(best, closer *load) {
	best.bin, closer.bin = -1, -1
	top := 0.0
	for _, k := range s.promising() {
		s.last[k] = 0
		s.admit(k)
		for rule := range fillRules {
			l := s.fill(k, rule)
			if len(l.items) == 0 {
				break
			}
			r := s.valueForPrice(k, l.value)
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

// promising returns the bins whose last fills were worth most for their price, best first.
func (s *search) promising() []int {
	out, limit := s.top[:0], maxBins
	if len(s.order) > maxRows {
		limit = maxBinsLarge
	}
	for _, k := range s.bins {
		if len(out) == limit && s.last[k] <= s.last[out[limit-1]] || s.affordable(k, 1) == 0 {
			continue
		}
		if len(out) < limit {
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

// howOften returns how often to buy the load: as often as it can be repeated, except for the last quarter, where
// another load may be better, and for at most a portion of the value.
func (s *search) howOften(l *load, portion float64) int {
	times := s.repeats(l.items)
	times = max(1, times-times/4)
	if limit := portion / max(l.value, 1e-9); limit < float64(times) {
		times = max(1, int(limit))
	}
	return s.affordable(l.bin, times)
}

// addPrice adds the price of this many bins to the cost, at most up to limit.
func addPrice(cost int64, times int, price int64) int64 {
	const limit = 1 << 61
	if price > 0 && int64(times) > (limit-cost)/price {
		return limit
	}
	return cost + int64(times)*price
}

// ending is a point at which one more bin could have ended the search.
type ending struct {
	patterns int
	cost     int64
	closer   load
}

// endEarlier ends at the cheapest ending if that costs less than what followed, or serves more.
func (s *search) endEarlier(out []Pattern, cost int64, endings []ending) ([]Pattern, int64) {
	total := func(e *ending) int64 { return addPrice(e.cost, 1, s.p.Bins[e.closer.bin].Price) }
	at := -1
	cut := s.spill || s.steps <= 0
	if s.waiting > 0 && !cut && len(endings) > 0 {
		at, cost = 0, total(&endings[0])
	}
	for i := range endings {
		e := &endings[i]
		if cut && s.waiting > 0 {
			break
		}
		if t := total(e); t < cost || at < 0 && t == cost && e.patterns+1 < len(out) {
			at, cost = i, t
		}
	}
	if at < 0 {
		return out, cost
	}
	e := &endings[at]
	for _, x := range out[e.patterns:] {
		s.buy(x.Bin, x.Items, -x.Times)
	}
	s.buy(e.closer.bin, e.closer.items, 1)
	return append(out[:e.patterns:e.patterns], Pattern{Bin: e.closer.bin, Items: e.closer.items, Times: 1}), cost
}
