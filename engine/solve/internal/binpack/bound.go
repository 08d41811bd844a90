package binpack

import "math"

// Bound returns a lower bound on the cost of bins for all items that some bin can hold: that of the resource LP.
func Bound(p *Problem) int64 {
	p = p.normalized()
	_, bound := p.solveResourceLP(p.packable())
	return int64(math.Floor(max(bound, 0)))
}

// Value returns what each item is worth at the shadow prices of the resource LP, lowered until no bin can hold items
// of more value than its price: whichever items are packed, their bins cost at least the items' value. It is 0 for
// items that no bin can hold.
func Value(p *Problem) []float64 {
	p = p.normalized()
	out := make([]float64, len(p.Items))
	left := p.packable()
	y, bound := p.solveResourceLP(left)
	sum := 0.0
	for i := range p.Items {
		if left[i] > 0 {
			out[i] = y.of(&p.Items[i], p.Dims)
			sum += float64(float64(left[i]) * out[i])
		}
	}
	scale := 0.0
	if sum > 0 && !math.IsInf(sum, 0) && !math.IsNaN(bound) {
		scale = max(bound, 0) / sum
	}
	for i := range out {
		out[i] *= scale
	}
	return out
}

// raiseBound raises the bound further if the value of the configuration LP shows that this is possible: with
// fractional loads the LP no longer consists of patterns that can be bought, but its bound is found sooner.
func (v *solver) raiseBound(lp *configurationLP) {
	if lp.objective() <= v.bound*gapTolerance || v.steps <= 0 {
		return
	}
	lp.fractional, lp.steps = true, min(v.steps, fractionalSteps)
	v.run(lp, float64(v.cost)/gapTolerance)
	v.bound = max(v.bound, lp.bound)
}

// raiseBoundByFloors raises the bound if the LP of the solution proves nothing, because it keeps soft slots, or
// because there are more items than it can have rows. Items as small as the smallest of their cell cost no more than
// the items themselves.
func (v *solver) raiseBoundByFloors() {
	const worthwhileGap = 1.01
	if float64(v.cost) <= v.bound*worthwhileGap || v.steps <= 0 || v.waiting > 0 {
		return
	}
	rows, left := v.relaxed.withoutSoft().floors(v.relaxedLeft)
	y, bound := rows.solveResourceLP(left)
	lp := rows.newConfigurationLP(left, nil, y, bound, min(v.steps, columnSteps))
	if lp == nil {
		return
	}
	v.run(lp, float64(v.cost)/gapTolerance)
	v.bound = max(v.bound, lp.bound)
	v.raiseBound(lp)
}

// relaxedPatterns returns the patterns in terms of relaxed items.
func relaxedPatterns(p *Problem, patterns []Pattern) []Pattern {
	if p.Relaxed == nil {
		return patterns
	}
	out := make([]Pattern, len(patterns))
	count := make([]int, len(p.Relaxed))
	for i, x := range patterns {
		out[i] = Pattern{Bin: x.Bin, Times: x.Times}
		for _, c := range x.Items {
			count[p.Items[c.Item].Relaxed] += c.N
		}
		for _, c := range x.Items {
			if r := p.Items[c.Item].Relaxed; count[r] > 0 {
				out[i].Items = append(out[i].Items, ItemCount{r, count[r]})
				count[r] = 0
			}
		}
	}
	return out
}
