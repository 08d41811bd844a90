package cover

import "math"

// Options bound the work.
type Options struct {
	Steps int // 0 = the default
	// Spill says that what finds no bin here may find one elsewhere: where limits leave some without, no dearer bins are bought
	// to serve more.
	Spill bool
}

// How far a stage goes.
const (
	defaultSteps  = 40_000_000
	close         = 1.002 // a solution this near to its bound needs no further stage
	improveRounds = 200
	improveSteps  = 500_000
	patience      = 60 // rounds without gain after which improving ends
	columnSteps   = 4_000_000
	proofSteps    = 3_000_000
)

// Solve buys bins for all items that some bin can hold.
func Solve(p *Problem, o Options) Solution {
	steps := o.Steps
	if steps <= 0 {
		steps = defaultSteps
	}
	v := &solver{p: p, spill: o.Spill, loose: p.loosened(), steps: steps, left: p.holdable(p.Items)}
	v.looseLeft = v.left
	if p.Loose != nil {
		v.looseLeft = make([]int, len(p.Loose))
		for i, n := range v.left {
			v.looseLeft[p.Items[i].Loose] += n
		}
	}
	_, v.bound = v.loose.pour(v.looseLeft)
	v.offer(v.greedily())
	v.steps = v.best.steps
	c := v.columns()
	if !v.near() && v.steps > 0 {
		v.improve()
	}
	if c != nil && !v.near() {
		v.prove(c)
	}
	return v.solution(steps)
}

// solver goes through the stages.
type solver struct {
	p, loose        *Problem
	left, looseLeft []int
	bound           float64
	steps           int
	spill           bool
	best            *search // the state after the best solution
	patterns        []Pattern
	cost            int64
	waiting         int
}

func (v *solver) near() bool { return float64(v.cost) <= v.bound*close && v.waiting == 0 }

func (v *solver) greedily() (*search, []Pattern, int64) {
	s := newSearch(v.p, v.left, v.p.Pools, v.steps)
	s.spill = v.spill
	patterns, cost := s.greedy()
	return s, patterns, cost
}

// offer keeps a solution if it serves more, or as many for less.
func (v *solver) offer(s *search, patterns []Pattern, cost int64) {
	waiting := 0
	for _, n := range s.left {
		waiting += n
	}
	if v.best == nil || waiting < v.waiting && !v.spill || waiting == v.waiting && cost < v.cost {
		v.best, v.patterns, v.cost, v.waiting = s, patterns, cost, waiting
	}
}

// columns raises the bound by column generation and buys the patterns it found. It gives the LP, nil if there is none.
func (v *solver) columns() *configuration {
	if v.near() || v.steps <= 0 || v.spill && v.waiting > 0 {
		return nil
	}
	c := v.loose.configure(v.looseLeft, v.loosely(v.patterns), min(v.steps, columnSteps))
	if c == nil {
		return nil
	}
	before := c.steps
	c.solve(float64(v.cost) / close)
	v.steps -= before - c.steps
	if v.loose.strict() {
		v.bound = max(v.bound, c.best)
	}
	if c.value() > float64(v.cost)/close || v.steps <= 0 {
		return c
	}
	s := newSearch(v.p, v.left, v.p.Pools, v.steps)
	if v.p.Loose == nil {
		patterns, cost := s.round(c)
		v.offer(s, patterns, cost)
	} else {
		s.revalue(v.left)
		for i := range v.p.Items {
			s.value[i] = c.valueOf(v.p.Items[i].Loose)
		}
		l := newSearch(v.loose, v.looseLeft, v.p.Pools, v.steps)
		loose, _ := l.round(c)
		patterns, cost := s.fit(loose)
		v.offer(s, patterns, cost)
	}
	v.steps = s.steps
	return c
}

// improve dissolves and repacks.
func (v *solver) improve() {
	s := v.best
	s.fixed, s.noise = false, nil
	s.revalue(v.left)
	budget := min(v.steps, improveSteps)
	s.steps = budget
	v.patterns, v.cost = s.improve(v.patterns, v.cost, v.bound)
	v.steps -= budget - s.steps
}

// prove raises the bound further where the LP over patterns says that it can be raised.
func (v *solver) prove(c *configuration) {
	if c.value() <= v.bound*close || v.steps <= 0 || !v.loose.strict() {
		return
	}
	c.relaxing, c.steps = true, min(v.steps, proofSteps)
	before := c.steps
	c.solve(float64(v.cost) / close)
	v.steps -= before - c.steps
	v.bound = max(v.bound, c.best)
}

func (v *solver) solution(steps int) Solution {
	out := Solution{
		Patterns: v.patterns, Cost: v.cost, Partial: v.steps <= 0, Steps: steps - v.steps,
		Bound: int64(math.Floor(max(min(v.bound, float64(v.cost)), 0))), Left: make([]int, len(v.p.Items)),
	}
	for i := range v.p.Items {
		out.Left[i] = max(v.p.Items[i].Count, 0)
	}
	for _, x := range out.Patterns {
		for _, t := range x.Takes {
			out.Left[t.Item] -= t.N * x.Times
		}
	}
	return out
}

// loosely says the patterns in loose items.
func (v *solver) loosely(patterns []Pattern) []Pattern {
	if v.p.Loose == nil {
		return patterns
	}
	out := make([]Pattern, len(patterns))
	count := make([]int, len(v.p.Loose))
	for i, x := range patterns {
		out[i] = Pattern{Bin: x.Bin, Times: x.Times}
		for _, t := range x.Takes {
			count[v.p.Items[t.Item].Loose] += t.N
		}
		for _, t := range x.Takes {
			l := v.p.Items[t.Item].Loose
			if count[l] > 0 {
				out[i].Takes = append(out[i].Takes, Take{l, count[l]})
				count[l] = 0
			}
		}
	}
	return out
}

// round buys the whole bins of the LP's solution and packs the rest greedily.
func (s *search) round(c *configuration) ([]Pattern, int64) {
	var out []Pattern
	var cost int64
	for i, col := range c.master.basis {
		if col == nil {
			continue
		}
		x := Pattern{Bin: col.bin, Times: int(c.master.x[i] + 1e-6)}
		clear(s.banned)
		for k, r := range col.rows {
			n := int(math.Round(col.vals[k] * c.count[r]))
			if !s.joins(c.items[r]) {
				continue // the LP knows no conflicts
			}
			x.Takes = append(x.Takes, Take{c.items[r], n})
			x.Times = min(x.Times, s.left[c.items[r]]/n)
		}
		n := 0
		for len(x.Takes) > 0 && n < x.Times && s.allows(x.Bin) {
			s.buy(x.Bin, x.Takes)
			n++
		}
		if x.Times = n; n > 0 {
			out = append(out, x)
			cost += int64(n) * s.p.Bins[x.Bin].Price
		}
	}
	clear(s.banned)
	rest, more := s.greedy()
	return append(out, rest...), cost + more
}

// loosened is the problem of the loose items. Bins that differ only in what the looser items do not ask for are one.
func (p *Problem) loosened() *Problem {
	if p.Loose == nil {
		return p
	}
	out := *p
	out.Items, out.Loose = p.Loose, nil
	return &out
}

// strict reports whether all slots count for the bound.
func (p *Problem) strict() bool {
	for i := range p.Items {
		for _, s := range p.Items[i].Slots {
			if p.soft(s) {
				return false
			}
		}
	}
	return true
}

// holdable is how many of each item some bin can hold: all or none.
func (p *Problem) holdable(items []Item) []int {
	out := make([]int, len(items))
	for i := range items {
		it := &items[i]
		for _, s := range it.Slots {
			if p.Slots[s] < 1 {
				it = nil
				break
			}
		}
		if it == nil || it.Count <= 0 {
			continue
		}
		for k := range p.Bins {
			if p.Bins[k].Open.Has(it.Class) && fits(p.Dims, &it.Size, &p.Bins[k].Size, 1) > 0 {
				out[i] = it.Count
				break
			}
		}
	}
	return out
}

// Bound is a lower bound of what bins cost for all items that some bin can hold: that of the resource LP.
func Bound(p *Problem) int64 {
	_, bound := p.pour(p.holdable(p.Items))
	return int64(math.Floor(max(bound, 0)))
}
