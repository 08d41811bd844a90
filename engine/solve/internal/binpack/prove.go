package binpack

// prove raises the bound further where the LP over patterns says that it can be raised.
func (v *solver) prove(c *configuration) {
	if c.value() <= v.bound*close || v.steps <= 0 {
		return
	}
	c.relaxing, c.steps = true, min(v.steps, proofSteps)
	before := c.steps
	c.solve(float64(v.cost) / close)
	v.steps -= before - c.steps
	v.bound = max(v.bound, c.best)
}

// proveAnew raises the bound where the LP of the solution proves nothing: because it keeps soft slots, or because there are more
// items than it can have rows. What items cost that are as small as the smallest of their cell, the items cost at least.
func (v *solver) proveAnew() {
	const worthIt = 1.01
	if float64(v.cost) <= v.bound*worthIt || v.steps <= 0 || v.waiting > 0 {
		return
	}
	rows, left := v.loose.withoutSoft().floors(v.looseLeft)
	y, bound := rows.pour(left)
	c := rows.configure(left, nil, y, bound, min(v.steps, columnSteps))
	if c == nil {
		return
	}
	before := c.steps
	c.solve(float64(v.cost) / close)
	v.steps -= before - c.steps
	v.bound = max(v.bound, c.best)
	v.prove(c)
}

// loosely says the patterns in loose items.
func loosely(p *Problem, patterns []Pattern) []Pattern {
	if p.Loose == nil {
		return patterns
	}
	out := make([]Pattern, len(patterns))
	count := make([]int, len(p.Loose))
	for i, x := range patterns {
		out[i] = Pattern{Bin: x.Bin, Times: x.Times}
		for _, t := range x.Takes {
			count[p.Items[t.Item].Loose] += t.N
		}
		for _, t := range x.Takes {
			l := p.Items[t.Item].Loose
			if count[l] > 0 {
				out[i].Takes = append(out[i].Takes, Take{l, count[l]})
				count[l] = 0
			}
		}
	}
	return out
}
