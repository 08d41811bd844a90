package check

import "slices"

// noOrder reports whether one of the stuck queues certainly cannot be bound in any order, judged by the end state. It
// is for plans with too many pods to try every order.
func (o *order) noOrder(stuck []*queue) bool {
	end := map[*counter][]int{}
	for _, c := range o.counters {
		end[c] = slices.Clone(c.start)
	}
	o.planned(func(h helper) {
		for _, c := range o.feeds[h.shape] {
			if c.here[h.at] {
				end[c][c.places.at[h.at].in] += h.n
			}
		}
	})
	return slices.ContainsFunc(stuck, func(q *queue) bool {
		n := o.needs[q.shape]
		for i, c := range n.near {
			if o.nobodyFirst(c, q.in[i]) {
				return true
			}
		}
		for i, s := range n.spread {
			if o.tooMany(s, q.in[len(n.near)+i], end[s.counter]) {
				return true
			}
		}
		return false
	})
}

func (o *order) planned(do func(helper)) {
	for _, q := range o.queues {
		for _, h := range q.loads {
			do(h)
		}
	}
	for _, h := range o.rest {
		do(h)
	}
}

// nobodyFirst: every pod counted in the domain has this affinity, and some other domain has a pod already or is in
// the same situation: only one group can have a first pod.
func (o *order) nobodyFirst(c *counter, domain int) bool {
	closed := func(d int) bool { return c.start[d] == 0 && !o.comes(c, d) }
	if !closed(domain) {
		return false
	}
	return slices.ContainsFunc(c.start, func(n int) bool { return n > 0 }) ||
		slices.ContainsFunc(o.queues, func(q *queue) bool {
			i := slices.Index(o.needs[q.shape].near, c)
			return i >= 0 && q.in[i] != domain && closed(q.in[i])
		})
}

// tooMany: the last pod of the domain to be bound with a spread by this counter that counts itself sees all the
// others, and no domain has more pods at that time than in the end.
func (o *order) tooMany(s spreadNeed, domain int, end []int) bool {
	pods, skew, least := s.start[domain], int64(0), 0
	for _, q := range o.queues {
		n := o.needs[q.shape]
		for i, other := range n.spread {
			if other.counter != s.counter || other.self == 0 || !s.matches[q.shape] || q.in[len(n.near)+i] != domain {
				continue
			}
			skew = max(skew, int64(other.rule.MaxSkew))
			least = max(least, lowestOf(s.counter, end, other.rule.MinDomains))
			for _, h := range q.loads {
				if s.here[h.at] {
					pods += h.n
				}
			}
			break
		}
	}
	return skew > 0 && int64(pods-least) > skew
}

// lowestOf is counter.least for other counts.
func lowestOf(c *counter, counts []int, minDomains int32) int {
	if c.domains == 0 || c.domains < int(minDomains) {
		return 0
	}
	low := -1
	for d, n := range counts {
		if c.domain[d] && (low < 0 || n < low) {
			low = n
		}
	}
	return low
}
