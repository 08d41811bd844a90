package binpack

import "math"

// Options bound the work.
type Options struct {
	Steps int // 0 = the default
	// Spill says that what finds no bin here may find one elsewhere: where limits leave some without, no dearer bins are bought
	// to serve more.
	Spill bool
	// Unproven says that nobody asks how good the solution is: no work goes into a bound that does not make it better.
	Unproven bool
	// Below is from which cost on a solution is of no use: once the bound says that there is no cheaper one, the search ends. 0 = any is.
	Below int64
}

// How far a stage goes.
const (
	defaultSteps  = 40_000_000
	close         = 1.002 // a solution this near to its bound needs no further stage
	improveRounds = 200
	improveSteps  = 500_000
	patience      = 60 // rounds without gain after which improving ends
	// A solution of few bins that is far from its bound is improved harder: many bins are more than can be dissolved.
	far         = 1.02
	few         = 500
	harder      = 8
	columnSteps = 4_000_000
	proofSteps  = 3_000_000
)

// Solve buys bins for all items that some bin can hold.
func Solve(p *Problem, o Options) Solution {
	steps := o.Steps
	if steps <= 0 {
		steps = defaultSteps
	}
	p = p.sane()
	v := &solver{p: p, spill: o.Spill, below: float64(o.Below), loose: p.loosened(), steps: steps, left: p.holdable(p.Items)}
	v.looseLeft = v.left
	if p.Loose != nil {
		v.looseLeft = make([]int, len(p.Loose))
		for i, n := range v.left {
			v.looseLeft[p.Items[i].Loose] += n
		}
	}
	v.fluid, v.bound = v.loose.pour(v.looseLeft)
	v.offer(v.greedily())
	v.steps = v.best.steps
	c := v.columns()
	if !v.over() && v.steps > 0 {
		v.improve()
	}
	switch {
	case v.over() || o.Unproven:
	case c != nil && v.loose.strict():
		v.prove(c)
	default:
		v.proveAnew()
	}
	return v.solution(steps)
}

// solver goes through the stages.
type solver struct {
	p, loose        *Problem
	left, looseLeft []int
	fluid           *prices // of loose
	bound           float64
	steps           int
	spill           bool
	below           float64 // see Options.Below
	best            *search // the state after the best solution
	patterns        []Pattern
	cost            int64
	waiting         int
}

func (v *solver) near() bool { return float64(v.cost) <= v.bound*close && v.waiting == 0 }

// over reports whether nothing better is worth looking for.
func (v *solver) over() bool { return v.near() || v.below > 0 && v.bound >= v.below }

// target is up to where a higher bound is worth some work.
func (v *solver) target() float64 {
	if near := float64(v.cost) / close; v.below <= 0 || near < v.below {
		return near
	}
	return v.below
}

func (v *solver) greedily() (*search, []Pattern, int64) {
	s := newSearch(v.p, v.left, v.p.Pools, v.steps)
	s.spill = v.spill
	patterns, cost := s.greedy()
	return s, patterns, cost
}

// offer keeps a solution if it serves more, or as many for less.
func (v *solver) offer(s *search, patterns []Pattern, cost int64) {
	waiting := s.waits
	if v.best == nil || waiting < v.waiting && !v.spill || waiting == v.waiting && cost < v.cost {
		v.best, v.patterns, v.cost, v.waiting = s, patterns, cost, waiting
	}
}

// columns raises the bound by column generation and buys the patterns it found. It gives the LP, nil if there is none that
// proves something.
func (v *solver) columns() *configuration {
	if v.over() || v.steps <= 0 || v.spill && v.waiting > 0 {
		return nil
	}
	p, rows, left, y, bound := v.p, v.loose, v.looseLeft, v.fluid, v.bound
	known, exact := loosely(p, v.patterns), rows.waiting(left) <= v.mostExact()
	if !exact {
		p, rows, left = v.p.cells(v.loose, v.looseLeft)
		y, bound = rows.pour(left)
		known = nil
	}
	c := rows.configure(left, known, y, bound, min(v.steps, columnSteps))
	if c == nil {
		return nil
	}
	before := c.steps
	c.solve(v.target())
	v.steps -= before - c.steps
	if exact && rows.strict() {
		v.bound = max(v.bound, c.best)
	}
	if v.steps > 0 && c.value() <= float64(v.cost)/close {
		s := newSearch(p, v.left, p.Pools, v.steps)
		v.offer(s.realize(c, rows, left, exact))
		v.steps = s.steps
	}
	if !exact {
		return nil
	}
	return c
}

// mostExact is up to how many items each has a row of its own. Where bins hold many things, cells of things of about the same
// size serve better and sooner.
func (v *solver) mostExact() int {
	const crowd, inCrowds = 20, 160
	things := 0
	for _, n := range v.left {
		things += n
	}
	if things > crowd*bought(v.patterns) {
		return inCrowds
	}
	return mostRows
}

// waiting is how many items wait.
func (p *Problem) waiting(left []int) (n int) {
	for _, l := range left {
		n += min(l, 1)
	}
	return n
}

// realize buys what the LP over the rows' patterns says.
func (s *search) realize(c *configuration, rows *Problem, left []int, exact bool) (*search, []Pattern, int64) {
	if s.p.Loose == nil {
		patterns, cost := s.round(c, true)
		return s, patterns, cost
	}
	s.revalue(s.left)
	for i := range s.p.Items {
		it := &s.p.Items[i]
		row, worth := &rows.Items[it.Loose], c.valueOf(it.Loose)
		if it.Class == row.Class {
			// What a row is worth is shared out by size.
			if mean := s.prices.of(row, rows.Dims); mean > 0 {
				worth *= s.value[i] / mean
			}
		}
		s.value[i] = worth
	}
	l := newSearch(rows, left, s.p.Pools, s.steps)
	loose, _ := l.round(c, exact)
	s.steps = l.steps
	patterns, cost := s.fit(loose)
	return s, patterns, cost
}

// bought is the number of bins.
func bought(patterns []Pattern) (n int) {
	for i := range patterns {
		n += patterns[i].Times
	}
	return n
}

// improve dissolves and repacks.
func (v *solver) improve() {
	s := v.best
	s.fixed, s.noise = false, nil
	s.revalue(v.left)
	effort := 1
	if float64(v.cost) > v.bound*far && bought(v.patterns) <= few {
		effort = harder
	}
	budget := min(v.steps, improveSteps*effort)
	s.steps = budget
	v.patterns, v.cost = s.improve(v.patterns, v.cost, v.bound, effort)
	v.steps -= budget - s.steps
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
