package binpack

import "math"

// Options bound the work.
type Options struct {
	Steps int // 0 = the default
	// Spill means that items that find no bin here may find one elsewhere: if limits leave some unpacked, the solver
	// does not buy more expensive bins to serve more.
	Spill bool
	// SkipBound means that the bound is not used: no work goes into a bound that does not improve the solution.
	SkipBound bool
	// Cutoff is the cost at which a solution becomes useless: the search ends once the bound reaches it. 0 = none.
	Cutoff int64
}

// How far a stage goes.
const (
	defaultSteps  = 40_000_000
	gapTolerance  = 1.002 // a solution this near to its bound needs no further stage
	improveRounds = 200
	improveSteps  = 500_000
	patience      = 60 // rounds without gain after which improving ends
	// A solution of few bins that is far from its bound is improved harder: many bins are more than can be repacked.
	wideGap         = 1.02
	fewBins         = 500
	harder          = 8
	columnSteps     = 4_000_000
	fractionalSteps = 3_000_000
)

// Solve buys bins for all items that some bin can hold.
func Solve(p *Problem, o Options) Solution {
	steps := o.Steps
	if steps <= 0 {
		steps = defaultSteps
	}
	p = p.normalized()
	v := &solver{
		p: p, relaxed: p.relaxed(), left: p.packable(), steps: steps, spill: o.Spill, cutoff: float64(o.Cutoff),
	}
	v.relaxedLeft = v.left
	if p.Relaxed != nil {
		v.relaxedLeft = make([]int, len(p.Relaxed))
		for i, n := range v.left {
			v.relaxedLeft[p.Items[i].Relaxed] += n
		}
	}
	// 1. Lower bound and item values.
	v.prices, v.bound = v.relaxed.solveResourceLP(v.relaxedLeft)
	// 2. A first solution.
	s := newSearch(v.p, v.left, v.p.Pools, v.steps)
	s.spill = v.spill
	patterns, cost := s.greedy()
	v.offer(s, patterns, cost)
	v.steps = v.best.steps
	// 3. Column generation raises the bound, and its patterns may be a better solution.
	lp := v.generateColumns()
	// 4. Neighbourhood search.
	if !v.done() && v.steps > 0 {
		v.improve()
	}
	// 5. A better bound.
	switch {
	case v.done() || o.SkipBound:
	case lp != nil && v.relaxed.allHard():
		v.raiseBound(lp)
	default:
		v.raiseBoundByFloors()
	}
	return v.solution(steps)
}

// solver holds the best solution and the best bound while the stages go on.
type solver struct {
	p, relaxed        *Problem
	left, relaxedLeft []int
	prices            *prices // of relaxed
	bound             float64
	steps             int
	spill             bool
	cutoff            float64 // see Options.Cutoff
	best              *search // its state after the best solution
	patterns          []Pattern
	cost              int64
	waiting           int
}

// done reports whether nothing better is worth looking for.
func (v *solver) done() bool {
	return float64(v.cost) <= v.bound*gapTolerance && v.waiting == 0 || v.cutoff > 0 && v.bound >= v.cutoff
}

// target returns the bound from which on done is true.
func (v *solver) target() float64 {
	if near := float64(v.cost) / gapTolerance; v.cutoff <= 0 || near < v.cutoff {
		return near
	}
	return v.cutoff
}

// offer keeps a solution if it serves more, or as many for less.
func (v *solver) offer(s *search, patterns []Pattern, cost int64) {
	waiting := s.waiting
	if v.best == nil || waiting < v.waiting && !v.spill || waiting == v.waiting && cost < v.cost {
		v.best, v.patterns, v.cost, v.waiting = s, patterns, cost, waiting
	}
}

// generateColumns raises the bound by column generation and buys the patterns it found. It returns the LP, or nil if
// there is none that proves a bound.
func (v *solver) generateColumns() *configurationLP {
	if v.done() || v.steps <= 0 || v.spill && v.waiting > 0 {
		return nil
	}
	p, rows, left, prices, bound := v.p, v.relaxed, v.relaxedLeft, v.prices, v.bound
	known, exact := relaxedPatterns(p, v.patterns), distinct(left) <= v.maxExactRows()
	if !exact {
		p, rows, left = v.p.withCells(v.relaxed, v.relaxedLeft)
		prices, bound = rows.solveResourceLP(left)
		known = nil
	}
	lp := rows.newConfigurationLP(left, known, prices, bound, min(v.steps, columnSteps))
	if lp == nil {
		return nil
	}
	v.run(lp, v.target())
	if exact && rows.allHard() {
		v.bound = max(v.bound, lp.bound)
	}
	if v.steps > 0 && lp.objective() <= float64(v.cost)/gapTolerance {
		s := newSearch(p, v.left, p.Pools, v.steps)
		patterns, cost := s.realize(lp, rows, left, exact)
		v.offer(s, patterns, cost)
		v.steps = s.steps
	}
	if !exact {
		return nil
	}
	return lp
}

// run solves the LP up to a bound and charges its steps.
func (v *solver) run(lp *configurationLP, target float64) {
	before := lp.steps
	lp.solve(target)
	v.steps -= before - lp.steps
}

// maxExactRows returns the maximum number of items that have rows of their own in the configuration LP. If a bin
// holds many things, cells of similar size give better results sooner.
func (v *solver) maxExactRows() int {
	const crowd, inCrowds = 20, 160
	things := 0
	for _, n := range v.left {
		things += n
	}
	if things > crowd*binCount(v.patterns) {
		return inCrowds
	}
	return maxRows
}

// distinct returns how many items wait, each counted once.
func distinct(left []int) (n int) {
	for _, l := range left {
		n += min(l, 1)
	}
	return n
}

// binCount returns the number of bins.
func binCount(patterns []Pattern) (n int) {
	for i := range patterns {
		n += patterns[i].Times
	}
	return n
}

// improve repacks parts of the best solution.
func (v *solver) improve() {
	s := v.best
	s.fixed, s.noise = false, nil
	s.revalue(v.left)
	effort := 1
	if float64(v.cost) > v.bound*wideGap && binCount(v.patterns) <= fewBins {
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
		for _, c := range x.Items {
			out.Left[c.Item] -= c.N * x.Times
		}
	}
	return out
}
