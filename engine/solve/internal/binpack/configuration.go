package binpack

import "slices"

// Limits of column generation.
const (
	maxRows     = 240    // items
	maxColumns  = 400    // rounds
	checkEvery  = 12     // rounds after which it ends if they moved neither value nor bound by
	minProgress = 0.0003 // this part
	// With fractional loads it also ends if the bound stalls while it is near the value, or for too many checks.
	nearGap = 1.003
	maxIdle = 8
)

// configurationLP is the LP over whole patterns (Gilmore and Gomory). A row is a waiting item, scaled to a demand of
// one; a column is a pattern. Its pricing problem is a knapsack for each bin.
type configurationLP struct {
	p         *Problem
	items     []int // by row
	count     []float64
	knapsacks []*knapsack
	master    *master
	bound     float64   // the best lower bound so far
	stable    []float64 // the duals that gave it, scaled as Farley's bound is
	pool      []*column
	promising []*column // of the pool; scratch of reoptimize
	// fractional lets a bin have a load with parts of items if its whole loads cannot be proven to be worth at most its
	// price. The LP then no longer consists of patterns that can be bought, but its bound holds.
	fractional bool
	steps      int
}

// newConfigurationLP returns the LP of the items left, with the patterns of a solution, and with prices that are
// known to prove a bound. It returns nil if there are no rows, too many, or one that no bin serves.
func (p *Problem) newConfigurationLP(
	left []int, known []Pattern, y *prices, bound float64, steps int,
) *configurationLP {
	c := &configurationLP{p: p, steps: steps, bound: bound}
	row := make([]int, len(p.Items))
	for i, n := range left {
		row[i] = -1
		if n > 0 {
			row[i] = len(c.items)
			c.items, c.count = append(c.items, i), append(c.count, float64(n))
			c.stable = append(c.stable, float64(n)*y.of(&p.Items[i], p.Dims))
		}
	}
	if len(c.items) == 0 || len(c.items) > maxRows {
		return nil
	}
	for _, b := range c.distinctBins() {
		c.knapsacks = append(c.knapsacks, c.knapsackOf(b))
	}
	if !c.start() {
		return nil
	}
	for _, x := range known {
		col := &column{bin: x.Bin, cost: float64(max(p.Bins[x.Bin].Price, 1))}
		for _, k := range x.Items {
			if r := row[k.Item]; r >= 0 {
				col.rows, col.vals = append(col.rows, int32(r)), append(col.vals, float64(k.N)/c.count[r])
			}
		}
		c.pool = append(c.pool, col)
	}
	c.reoptimize()
	return c
}

// distinctBins returns the bins without those that differ from another only in classes that no row has.
func (c *configurationLP) distinctBins() []int {
	var out []int
	asked := NewSet(0)
	for _, i := range c.items {
		class := c.p.Items[i].Class
		for len(asked) <= class>>6 {
			asked = append(asked, 0)
		}
		asked.Add(class)
	}
	for b := range c.p.Bins {
		if !slices.ContainsFunc(out, func(o int) bool { return c.p.equivalent(o, b, asked) }) {
			out = append(out, b)
		}
	}
	return out
}

// equivalent reports whether two bins are the same for the classes.
func (p *Problem) equivalent(i, j int, classes Set) bool {
	a, b := &p.Bins[i], &p.Bins[j]
	if a.Price != b.Price || a.Pool != b.Pool || a.Size != b.Size || !slices.Equal(a.Charge, b.Charge) {
		return false
	}
	for w, word := range classes {
		if (a.Open.word(w)^b.Open.word(w))&word != 0 {
			return false
		}
	}
	return true
}

// start gives each row the column that serves it alone and cheapest. It reports whether all have one.
func (c *configurationLP) start() bool {
	first, ones := make([]*column, len(c.items)), make([]float64, len(c.items))
	for _, k := range c.knapsacks {
		for j, r := range k.items {
			n := float64(k.upper[j]) / c.count[r]
			if first[r] == nil || k.price/n < first[r].cost/first[r].vals[0] {
				first[r] = &column{bin: k.bin, cost: k.price, rows: []int32{int32(r)}, vals: []float64{n}}
			}
		}
	}
	if slices.Contains(first, nil) {
		return false
	}
	for i := range ones {
		ones[i] = 1
	}
	c.master = newMaster(ones, first)
	return true
}

// solve generates columns until none has a negative reduced cost, the bound reaches the target, nothing moves any more,
// or the steps are used up. The duals of single rounds jump about, so columns are priced at duals between those of the
// last round and those that gave the best bound (Wentges smoothing).
func (c *configurationLP) solve(target float64) {
	smooth := make([]float64, len(c.items))
	value, bound, idle := c.objective(), c.bound, 0
	for n := 1; n <= maxColumns && c.steps > 0 && c.bound < target; n++ {
		const inertia = 0.6
		for r, y := range c.master.dual {
			smooth[r] = float64(inertia*c.stable[r]) + float64((1-inertia)*max(y, 0))
		}
		if !c.round(smooth) && !c.round(c.master.dual) {
			return
		}
		if n%checkEvery > 0 {
			continue
		}
		now := c.objective()
		if c.bound >= bound*(1+minProgress) {
			idle = 0
		} else if idle++; now > value*(1-minProgress) || c.fractional && (idle > maxIdle || now < c.bound*nearGap) {
			return
		}
		if now < c.bound*(1+minProgress) {
			return // the bound cannot pass the value
		}
		value, bound = now, c.bound
	}
}

// round solves the knapsack of every bin at the duals, adds the columns found, and raises the bound. It reports whether
// the solution changed.
func (c *configurationLP) round(dual []float64) bool {
	total, ratio := 0.0, 1.0
	for _, y := range dual {
		total += max(y, 0)
	}
	before := len(c.pool)
	for _, k := range c.knapsacks {
		for j, r := range k.items {
			k.value[j] = max(dual[r], 0) / c.count[r]
		}
		if value := c.price(k, len(c.pool) == before); value > 0 {
			ratio = max(ratio, value/k.cost) // a free bin proves nothing: the bound is 0
		}
	}
	// Farley: at duals divided by ratio no bin holds more than its price.
	if bound := total / ratio * (1 - 1e-9); bound > c.bound {
		c.bound = bound
		for r, y := range dual {
			c.stable[r] = max(y, 0) / ratio
		}
	}
	return c.reoptimize()
}

// reoptimize solves the LP over the known columns. It reports whether anything changed.
func (c *configurationLP) reoptimize() bool {
	changed := false
	c.promising = c.promising[:0]
	for range 20 * len(c.items) {
		if row := c.master.negativeDual(); row >= 0 {
			if !c.master.enterSurplus(row) {
				break
			}
			continue
		}
		best := c.entering()
		if best == nil || !c.master.enter(best) {
			break
		}
		changed = true
	}
	return changed
}

// entering returns the column with the lowest reduced cost for its cost among those that were negative when all were
// last priced; if none of them still is, it prices all again (partial pricing). It returns nil if no column is
// negative.
func (c *configurationLP) entering() *column {
	for _, all := range []bool{false, true} {
		from := c.promising
		if all {
			from = c.pool
		}
		var best *column
		least := -1e-7
		kept := c.promising[:0]
		for _, col := range from {
			r := c.master.reduced(col) / col.cost
			if r < -1e-7 {
				kept = append(kept, col)
			}
			if r < least {
				best, least = col, r
			}
		}
		c.steps -= len(from)/8 + 1
		if c.promising = kept; best != nil {
			return best
		}
	}
	return nil
}

// objective returns the cost of the LP's solution.
func (c *configurationLP) objective() float64 {
	sum := 0.0
	for i, col := range c.master.basis {
		if col != nil {
			sum += float64(col.cost * c.master.x[i])
		}
	}
	return sum
}

// itemValue returns the dual of one of an item, 0 if it is not in the LP.
func (c *configurationLP) itemValue(item int) float64 {
	r, ok := slices.BinarySearch(c.items, item)
	if !ok {
		return 0
	}
	return max(c.master.dual[r], 0) / c.count[r]
}
