package binpack

import (
	"math"
	"slices"
)

// Depth-first search in one bin takes at most so many steps.
const (
	mostBranches  = 3000
	leastBranches = 100
	deeper        = 18 // times as many while only the bound matters
	manyRows      = 80 // with more the bound gains more from further rounds than from depth
)

// knapsackOf is what may be in the bin. Its items are rows. Conflicts are left out, which keeps the bound valid.
func (c *configuration) knapsackOf(b int) *knapsack {
	p, bin := c.p, &c.p.Bins[b]
	k := &knapsack{bin: b, cost: float64(max(bin.Price, 0)), price: float64(max(bin.Price, 1)), budget: mostBranches / 4}
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
	k.value, k.rows, k.sizes = make([]float64, len(k.items)), make([][]int, len(k.items)), make([][]float64, len(k.items))
	for j := range k.size {
		for r, size := range k.size[j] {
			if size > 0 {
				k.rows[j], k.sizes[j] = append(k.rows[j], r), append(k.sizes[j], size)
			}
		}
	}
	return k
}

// priced looks for a load of the bin that is worth more than its price and takes it in as a column; where it is easy, or
// where none was found before. It gives the most that a load can be worth.
func (c *configuration) priced(k *knapsack, eager bool) float64 {
	// What proved the bin too dear a round ago often still does.
	if k.row != nil {
		c.steps -= len(k.items)/16 + 1
		if most := k.bound(); most <= k.price {
			return most
		}
	}
	c.steps -= len(k.items)/2 + 1
	take := k.relaxed()
	most := k.bound()
	if most <= k.price*(1+1e-7) {
		return most
	}
	whole := k.whole(take)
	value := k.worth(whole)
	if value <= k.price*(1+1e-6) || eager {
		whole, most = c.branched(k, whole)
		value = k.worth(whole)
	}
	switch {
	case value > k.price*(1+1e-6):
		c.pool = append(c.pool, columnOf(c, k, whole))
	case c.relaxing && most > k.price*(1+1e-4):
		c.pool = append(c.pool, columnOf(c, k, take))
	}
	return max(most, value)
}

// branched spends more on bins where it paid before: where it looked into everything, or found a column.
func (c *configuration) branched(k *knapsack, whole []int) ([]int, float64) {
	budget := k.budget
	if c.relaxing {
		budget *= deeper
		if len(c.items) > manyRows {
			budget /= 3
		}
	}
	before := k.worth(whole)
	found, most, left := k.branch(whole, k.price, budget)
	c.steps -= (budget - max(left, 0)) / 4
	if left >= 0 || !c.relaxing && k.worth(found) > before {
		k.budget = min(2*k.budget, mostBranches)
	} else {
		k.budget = max(k.budget/2, leastBranches)
	}
	return found, most
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

func columnOf[N int | float64](c *configuration, k *knapsack, takes []N) *column {
	col := &column{bin: k.bin, cost: k.price}
	for j, n := range takes {
		if n > 0 {
			r := k.items[j]
			col.rows, col.vals = append(col.rows, int32(r)), append(col.vals, float64(n)/c.count[r])
		}
	}
	return col
}
