package cover

import (
	"math"
	"slices"
)

// Column generation works on at most so many items, for so many rounds.
const (
	mostRows     = 160
	mostColumns  = 400
	mostBranches = 3000
)

// configuration is the LP over whole patterns (Gilmore–Gomory).
type configuration struct {
	p      *Problem
	items  []int // rows
	count  []float64
	bins   []*knapsack
	master *master
	best   float64   // lower bound
	stable []float64 // the duals that gave it
	rounds int
	pool   []*column
	// relaxing: a bin of which it cannot be proven that no whole load is worth more than its price may have a load with parts
	// of items. The LP is then no longer one of patterns that can be bought, but its bound holds.
	relaxing bool
	steps    int
}

// configure sets the LP up for what is left, beginning with the patterns of a solution.
func (p *Problem) configure(left []int, known []Pattern, steps int) *configuration {
	c := &configuration{p: p, steps: steps}
	row := make([]int, len(p.Items))
	for i, n := range left {
		row[i] = -1
		if n > 0 {
			row[i] = len(c.items)
			c.items, c.count = append(c.items, i), append(c.count, float64(n))
		}
	}
	if len(c.items) == 0 || len(c.items) > mostRows {
		return nil
	}
	c.bins, c.stable = make([]*knapsack, len(p.Bins)), make([]float64, len(c.items))
	first := make([]*column, len(c.items))
	for b := range p.Bins {
		k := c.knapsackOf(b)
		c.bins[b] = k
		for j, r := range k.items {
			n := float64(k.upper[j])
			price := float64(max(p.Bins[b].Price, 1))
			if first[r] == nil || price/n < first[r].cost/(first[r].vals[0]*c.count[r]) {
				first[r] = &column{bin: b, cost: price, rows: []int32{int32(r)}, vals: []float64{n / c.count[r]}}
			}
		}
	}
	if slices.Contains(first, nil) {
		return nil
	}
	ones := make([]float64, len(c.items))
	for i := range ones {
		ones[i] = 1
	}
	c.master = newMaster(ones, first)
	for _, x := range known {
		col := &column{cost: float64(max(p.Bins[x.Bin].Price, 1))}
		for _, t := range x.Takes {
			if r := row[t.Item]; r >= 0 {
				col.rows, col.vals = append(col.rows, int32(r)), append(col.vals, float64(t.N)/c.count[r])
			}
		}
		col.bin = x.Bin
		c.pool = append(c.pool, col)
	}
	c.settle()
	return c
}

// knapsackOf is what may be in the bin. Its items are rows. Conflicts are left out, which keeps the bound valid.
func (c *configuration) knapsackOf(b int) *knapsack {
	p, bin := c.p, &c.p.Bins[b]
	k := &knapsack{}
	for d := range p.Dims {
		k.full = append(k.full, float64(max(bin.Size[d], 0)))
	}
	slot := make([]int, len(p.Slots))
	for _, i := range c.items {
		for _, s := range p.Items[i].Slots {
			if slot[s] == 0 {
				k.full = append(k.full, float64(p.Slots[s]))
				slot[s] = len(k.full) - 1
			}
		}
	}
	for r, i := range c.items {
		it := &p.Items[i]
		if !bin.Open.Has(it.Class) {
			continue
		}
		n := fits(p.Dims, &it.Size, &bin.Size, int(min(c.count[r], 1e6)))
		for _, s := range it.Slots {
			n = min(n, p.Slots[s])
		}
		if n == 0 {
			continue
		}
		size := make([]float64, len(k.full))
		for d := range p.Dims {
			size[d] = float64(it.Size[d])
		}
		for _, s := range it.Slots {
			size[slot[s]] = 1
		}
		k.items, k.upper, k.size = append(k.items, r), append(k.upper, n), append(k.size, size)
	}
	// Rows on a common scale.
	for d, full := range k.full {
		if full > 0 {
			for j := range k.size {
				k.size[j][d] /= full
			}
			k.full[d] = 1
		}
	}
	k.value = make([]float64, len(k.items))
	return k
}

// solve generates columns until none is worth more than its price, or the work is done. It raises the lower bound. Columns
// are priced at values between those of the last round and those that gave the best bound: the values of single rounds
// jump about.
func (c *configuration) solve(target float64) {
	calm := make([]float64, len(c.items))
	for range mostColumns {
		if c.steps <= 0 || c.best >= target {
			return
		}
		const inertia = 0.6
		for r, y := range c.master.dual {
			if calm[r] = float64(inertia*c.stable[r]) + float64((1-inertia)*max(y, 0)); c.best == 0 {
				calm[r] = max(y, 0)
			}
		}
		if !c.round(calm) && !c.round(c.master.dual) {
			return
		}
	}
}

// round prices every bin and takes in the columns that pay; it reports whether there were any.
func (c *configuration) round(dual []float64) bool {
	total, worst := 0.0, 1.0
	for _, y := range dual {
		total += max(y, 0)
	}
	var found []*column
	for b, k := range c.bins {
		price := float64(max(c.p.Bins[b].Price, 1))
		for j, r := range k.items {
			k.value[j] = max(dual[r], 0) / c.count[r]
		}
		c.steps -= len(k.items)/2 + 1
		row, take := k.relaxed()
		most := k.most(row)
		if most > price*(1+1e-7) {
			whole := k.whole(take)
			value := k.worth(whole)
			if value <= price*(1+1e-6) || len(found) == 0 {
				budget := mostBranches
				if c.relaxing {
					budget *= 10
				}
				whole, most = k.branch(row, whole, price, budget)
				value = k.worth(whole)
				c.steps -= budget / 4
			}
			switch {
			case value > price*(1+1e-6):
				found = append(found, columnOf(c, b, whole))
			case c.relaxing && most > price*(1+1e-4):
				found = append(found, columnOf(c, b, take))
			}
			most = max(most, value)
		}
		if most > 0 {
			worst = max(worst, most/float64(max(c.p.Bins[b].Price, 0)))
		}
	}
	if bound := total / worst * (1 - 1e-9); bound > c.best {
		c.best = bound
		for r, y := range dual {
			c.stable[r] = max(y, 0) / worst
		}
	}
	c.pool = append(c.pool, found...)
	c.rounds++
	return c.settle()
}

// settle solves the LP over the columns that are known. It reports whether anything changed.
func (c *configuration) settle() bool {
	changed := false
	for range 20 * len(c.items) {
		if row := c.master.negativeDual(); row >= 0 {
			if !c.master.relax(row) {
				break
			}
			continue
		}
		var best *column
		least := -1e-7
		for _, col := range c.pool {
			if r := c.master.reduced(col) / col.cost; r < least {
				best, least = col, r
			}
		}
		c.steps -= len(c.pool) / 8
		if best == nil || !c.master.enter(best) {
			break
		}
		changed = true
	}
	return changed
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

func (k *knapsack) worth(takes []int) float64 {
	sum := 0.0
	for j, n := range takes {
		sum += float64(float64(n) * k.value[j])
	}
	return sum
}

// whole rounds a relaxed load down and fills what is free with what is worth most for what it takes of the scarcest.
func (k *knapsack) whole(take []float64) []int {
	out := make([]int, len(take))
	free := slices.Clone(k.full)
	put := func(j, n int) {
		out[j] += n
		for r, s := range k.size[j] {
			free[r] -= float64(float64(n) * s)
		}
	}
	for j, t := range take {
		put(j, min(int(t+1e-9), k.upper[j]))
	}
	for {
		best, top := -1, 0.0
		for j := range k.items {
			if out[j] >= k.upper[j] || k.value[j] <= 0 {
				continue
			}
			share := 1e-12
			for r, s := range k.size[j] {
				if s > free[r]+1e-12 {
					share = math.Inf(1)
					break
				}
				if s > 0 {
					share = max(share, s/max(free[r], 1e-12))
				}
			}
			if score := k.value[j] / share; score > top {
				best, top = j, score
			}
		}
		if best < 0 {
			return out
		}
		put(best, 1)
	}
}

func columnOf[N int | float64](c *configuration, b int, takes []N) *column {
	col := &column{cost: float64(max(c.p.Bins[b].Price, 1))}
	for j, n := range takes {
		if n > 0 {
			r := c.bins[b].items[j]
			col.rows, col.vals = append(col.rows, int32(r)), append(col.vals, float64(n)/c.count[r])
		}
	}
	col.bin = b
	return col
}
