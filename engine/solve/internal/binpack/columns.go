package binpack

import (
	"slices"
)

// Column generation works on at most so many items, for so many rounds.
const (
	mostRows    = 240
	mostColumns = 400
	calmRounds  = 12     // rounds after which it ends if they moved neither value nor bound by
	calmPart    = 0.0003 // this part
	// While it is only the bound that matters, it also ends once the bound rests where value and bound are near, or too often.
	nearly   = 1.003
	mostIdle = 8
)

// configuration is the LP over whole patterns (Gilmore–Gomory).
type configuration struct {
	p       *Problem
	items   []int // rows
	count   []float64
	bins    []*knapsack
	master  *master
	best    float64   // lower bound
	stable  []float64 // the duals that gave it
	rounds  int
	pool    []*column
	hopeful []*column // scratch of settle
	// relaxing: a bin of which it cannot be proven that no whole load is worth more than its price may have a load with parts
	// of items. The LP is then no longer one of patterns that can be bought, but its bound holds.
	relaxing bool
	steps    int
}

// configure sets the LP up for what is left, beginning with the patterns of a solution, and with prices that are known to
// prove a bound.
func (p *Problem) configure(left []int, known []Pattern, y *prices, bound float64, steps int) *configuration {
	c := &configuration{p: p, steps: steps, best: bound}
	row := make([]int, len(p.Items))
	for i, n := range left {
		row[i] = -1
		if n > 0 {
			row[i] = len(c.items)
			c.items, c.count = append(c.items, i), append(c.count, float64(n))
			c.stable = append(c.stable, float64(n)*y.of(&p.Items[i], p.Dims))
		}
	}
	if len(c.items) == 0 || len(c.items) > mostRows {
		return nil
	}
	for _, b := range c.unequal() {
		c.bins = append(c.bins, c.knapsackOf(b))
	}
	if !c.begin() {
		return nil
	}
	for _, x := range known {
		col := &column{bin: x.Bin, cost: float64(max(p.Bins[x.Bin].Price, 1))}
		for _, t := range x.Takes {
			if r := row[t.Item]; r >= 0 {
				col.rows, col.vals = append(col.rows, int32(r)), append(col.vals, float64(t.N)/c.count[r])
			}
		}
		c.pool = append(c.pool, col)
	}
	c.settle()
	return c
}

// unequal are the bins without those that only differ from another in what no row asks for.
func (c *configuration) unequal() []int {
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
		if !slices.ContainsFunc(out, func(o int) bool { return c.p.alike(o, b, asked) }) {
			out = append(out, b)
		}
	}
	return out
}

// alike reports whether two bins are the same to the classes.
func (p *Problem) alike(i, j int, classes Set) bool {
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

// begin gives each row the column of one item that serves it cheapest. It reports whether all have one.
func (c *configuration) begin() bool {
	first, ones := make([]*column, len(c.items)), make([]float64, len(c.items))
	for _, k := range c.bins {
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

// solve generates columns until none is worth more than its price, nothing moves any more, or the work is done. It raises the
// lower bound. Columns are priced at values between those of the last round and those that gave the best bound: the values
// of single rounds jump about.
func (c *configuration) solve(target float64) {
	calm := make([]float64, len(c.items))
	value, best, idle := c.value(), c.best, 0
	for n := 1; n <= mostColumns && c.steps > 0 && c.best < target; n++ {
		const inertia = 0.6
		for r, y := range c.master.dual {
			calm[r] = float64(inertia*c.stable[r]) + float64((1-inertia)*max(y, 0))
		}
		if !c.round(calm) && !c.round(c.master.dual) {
			return
		}
		if n%calmRounds > 0 {
			continue
		}
		now := c.value()
		if c.best >= best*(1+calmPart) {
			idle = 0
		} else if idle++; now > value*(1-calmPart) || c.relaxing && (idle > mostIdle || now < c.best*nearly) {
			return
		}
		if now < c.best*(1+calmPart) {
			return // the bound cannot pass the value
		}
		value, best = now, c.best
	}
}

// round prices every bin and takes in the columns that pay; it reports whether there were any.
func (c *configuration) round(dual []float64) bool {
	total, worst := 0.0, 1.0
	for _, y := range dual {
		total += max(y, 0)
	}
	found := len(c.pool)
	for _, k := range c.bins {
		for j, r := range k.items {
			k.value[j] = max(dual[r], 0) / c.count[r]
		}
		if most := c.priced(k, len(c.pool) == found); most > 0 {
			worst = max(worst, most/k.cost) // free bins prove nothing: the bound is 0
		}
	}
	if bound := total / worst * (1 - 1e-9); bound > c.best {
		c.best = bound
		for r, y := range dual {
			c.stable[r] = max(y, 0) / worst
		}
	}
	c.rounds++
	return c.settle()
}

// settle solves the LP over the columns that are known. It reports whether anything changed.
func (c *configuration) settle() bool {
	changed := false
	c.hopeful = c.hopeful[:0]
	for range 20 * len(c.items) {
		if row := c.master.negativeDual(); row >= 0 {
			if !c.master.relax(row) {
				break
			}
			continue
		}
		best := c.cheapest()
		if best == nil || !c.master.enter(best) {
			break
		}
		changed = true
	}
	return changed
}

// cheapest is the column that pays most for its cost among those that paid when all were last looked at; once none of them
// does any more, all are looked at. nil = none pays.
func (c *configuration) cheapest() *column {
	for _, all := range []bool{false, true} {
		from := c.hopeful
		if all {
			from = c.pool
		}
		var best *column
		least := -1e-7
		kept := c.hopeful[:0]
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
		if c.hopeful = kept; best != nil {
			return best
		}
	}
	return nil
}

// value is what the LP's solution costs.
func (c *configuration) value() float64 {
	sum := 0.0
	for i, col := range c.master.basis {
		if col != nil {
			sum += float64(col.cost * c.master.x[i])
		}
	}
	return sum
}

// valueOf is what one of an item is worth in the LP, 0 if it is not in it.
func (c *configuration) valueOf(item int) float64 {
	r, ok := slices.BinarySearch(c.items, item)
	if !ok {
		return 0
	}
	return max(c.master.dual[r], 0) / c.count[r]
}
