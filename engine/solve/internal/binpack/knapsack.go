package binpack

import (
	"math"
	"slices"
)

// Limits of the branch and bound in one bin, in steps.
const (
	maxBranches      = 3000
	minBranches      = 100
	fractionalFactor = 18 // more while only the bound matters
	manyRows         = 80 // with more rows the bound gains more from further rounds than from depth
)

// knapsack is the pricing problem of a bin: the load of most value. Its constraints are the bin's dimensions and slots,
// each scaled to a capacity of one. Conflicts are left out, which keeps the bound valid.
type knapsack struct {
	bin      int
	cost     float64
	price    float64 // cost, but at least 1
	items    []int   // rows of the configuration LP
	value    []float64
	size     [][]float64 // by item, constraint
	nonzero  [][]int     // by item: the constraints in which its size is not 0
	sizes    [][]float64 // by item: its size in these
	upper    []int       // the most of each item that a bin can hold
	capacity []float64
	budget   int       // steps of branch and bound
	dual     []float64 // of the capacities, from the last relaxation; nil = none yet
	simplex  boundedSimplex
}

func (c *configurationLP) knapsackOf(b int) *knapsack {
	p, bin := c.p, &c.p.Bins[b]
	k := &knapsack{
		bin: b, cost: float64(max(bin.Price, 0)), price: float64(max(bin.Price, 1)), budget: maxBranches / 4,
	}
	for d := range p.Dims {
		k.capacity = append(k.capacity, float64(max(bin.Size[d], 0)))
	}
	slot := make([]int, len(p.Slots))
	for _, i := range c.items {
		for _, s := range p.Items[i].Slots {
			if slot[s] == 0 {
				k.capacity = append(k.capacity, float64(p.Slots[s]))
				slot[s] = len(k.capacity) - 1
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
		size := make([]float64, len(k.capacity))
		for d := range p.Dims {
			size[d] = float64(it.Size[d])
		}
		for _, s := range it.Slots {
			size[slot[s]] = 1
		}
		k.items, k.upper, k.size = append(k.items, r), append(k.upper, n), append(k.size, size)
	}
	for d, capacity := range k.capacity {
		if capacity > 0 {
			for j := range k.size {
				k.size[j][d] /= capacity
			}
			k.capacity[d] = 1
		}
	}
	n := len(k.items)
	k.value, k.nonzero, k.sizes = make([]float64, n), make([][]int, n), make([][]float64, n)
	for j := range k.size {
		for d, size := range k.size[j] {
			if size > 0 {
				k.nonzero[j], k.sizes[j] = append(k.nonzero[j], d), append(k.sizes[j], size)
			}
		}
	}
	return k
}

// price looks for a load worth more than the bin's price and adds it as a column. It rounds the relaxation and, if
// that finds none or eager is set, tries branch and bound. It returns an upper bound on the value of a load.
func (c *configurationLP) price(k *knapsack, eager bool) float64 {
	// The duals that proved a bin too expensive a round ago often still do.
	if k.dual != nil {
		c.steps -= len(k.items)/16 + 1
		if limit := k.bound(); limit <= k.price {
			return limit
		}
	}
	c.steps -= len(k.items)/2 + 1
	part := k.solveRelaxation()
	limit := k.bound()
	if limit <= k.price*(1+1e-7) {
		return limit
	}
	whole := k.rounded(part)
	value := k.loadValue(whole)
	if value <= k.price*(1+1e-6) || eager {
		whole, limit = c.branchAndBound(k, whole)
		value = k.loadValue(whole)
	}
	switch {
	case value > k.price*(1+1e-6):
		c.pool = append(c.pool, columnOf(c, k, whole))
	case c.fractional && limit > k.price*(1+1e-4):
		c.pool = append(c.pool, columnOf(c, k, part))
	}
	return max(limit, value)
}

// branchAndBound improves a load. Its budget grows for bins for which it paid off before: the search was complete, or
// found a better load.
func (c *configurationLP) branchAndBound(k *knapsack, whole []int) ([]int, float64) {
	budget := k.budget
	if c.fractional {
		budget *= fractionalFactor
		if len(c.items) > manyRows {
			budget /= 3
		}
	}
	before := k.loadValue(whole)
	found, limit, left := k.branchAndBound(whole, k.price, budget)
	c.steps -= (budget - max(left, 0)) / 4
	if left >= 0 || !c.fractional && k.loadValue(found) > before {
		k.budget = min(2*k.budget, maxBranches)
	} else {
		k.budget = max(k.budget/2, minBranches)
	}
	return found, limit
}

func columnOf[N int | float64](c *configurationLP, k *knapsack, load []N) *column {
	col := &column{bin: k.bin, cost: k.price}
	for j, n := range load {
		if n > 0 {
			r := k.items[j]
			col.rows, col.vals = append(col.rows, int32(r)), append(col.vals, float64(n)/c.count[r])
		}
	}
	return col
}

func (k *knapsack) loadValue(load []int) float64 {
	sum := 0.0
	for j, n := range load {
		sum += float64(float64(n) * k.value[j])
	}
	return sum
}

// rounded rounds a fractional load down and fills what is free with the items of most value for their share of the
// scarcest capacity.
func (k *knapsack) rounded(part []float64) []int {
	out := make([]int, len(part))
	free := slices.Clone(k.capacity)
	put := func(j, n int) {
		out[j] += n
		for d, s := range k.size[j] {
			free[d] -= float64(float64(n) * s)
		}
	}
	for j, t := range part {
		put(j, min(int(t+1e-9), k.upper[j]))
	}
	for {
		best, top := -1, 0.0
		for j := range k.items {
			if out[j] >= k.upper[j] || k.value[j] <= 0 {
				continue
			}
			share := 1e-12
			for d, s := range k.size[j] {
				if s > free[d]+1e-12 {
					share = math.Inf(1)
					break
				}
				if s > 0 {
					share = max(share, s/max(free[d], 1e-12))
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

// bound returns an upper bound on a load's value: Lagrange's, valid for any duals.
func (k *knapsack) bound() float64 {
	sum := 0.0
	for d, y := range k.dual {
		sum += float64(y * k.capacity[d])
	}
	for i := range k.items {
		sum += float64(float64(k.upper[i]) * max(k.value[i]-k.priceOf(i), 0))
	}
	return sum
}

// priceOf returns the price of one piece of the item at the duals.
func (k *knapsack) priceOf(i int) float64 {
	sum := 0.0
	size := k.size[i][:len(k.dual)]
	for d, y := range k.dual {
		sum += float64(y * size[d])
	}
	return sum
}
