package binpack

import (
	"cmp"
	"slices"
)

// branch is a depth-first branch and bound for the knapsack (after Horowitz and Sahni, 1974): items in the order of
// value for price, as many as fit first. The bound of a subtree is the smaller of two: the free room at its prices
// times the best ratio of the remaining items, or the free room at its prices plus the remaining items' value beyond
// their prices.
type branch struct {
	*knapsack
	order   []choice  // by value for price
	ratio   []float64 // the best from here on
	surplus []float64 // value beyond price of those from here on
	free    []float64
	steps   int
	enough  float64 // subtrees that cannot exceed it are not searched
	best    float64
	taken   []int
	found   []int
	skipped float64 // the bound of the subtrees not searched for lack of steps
}

// choice is how many of an item to take.
type choice struct {
	item         int
	value, price float64
	ratio        float64 // value for price
	rows         []int   // capacities that it uses
	size         []float64
	upper        int
}

// branchAndBound improves the load start. It returns the best load, an upper bound on the value of all loads, and the
// steps left, which are negative if the search was cut short.
func (k *knapsack) branchAndBound(start []int, enough float64, steps int) (found []int, bound float64, left int) {
	n := len(k.items)
	b := &branch{
		knapsack: k, order: make([]choice, n), ratio: make([]float64, n+1), surplus: make([]float64, n+1),
		free: slices.Clone(k.capacity), steps: steps, enough: enough, taken: make([]int, n), found: start,
	}
	b.best = k.loadValue(start)
	for i := range n {
		price := k.priceOf(i)
		b.order[i] = choice{i, k.value[i], price, k.value[i] / max(price, 1e-12), k.nonzero[i], k.sizes[i], k.upper[i]}
	}
	slices.SortStableFunc(b.order, func(x, y choice) int { return cmp.Compare(y.ratio, x.ratio) })
	for d := n - 1; d >= 0; d-- {
		c := &b.order[d]
		b.surplus[d] = b.surplus[d+1] + float64(float64(c.upper)*max(c.value-c.price, 0))
		b.ratio[d] = max(b.ratio[d+1], c.ratio)
	}
	room := 0.0
	for d, y := range k.dual {
		room += float64(y * k.capacity[d])
	}
	b.descend(0, 0, room)
	return b.found, max(b.best, b.skipped, min(b.enough, k.bound())), b.steps
}

// limit returns an upper bound on the value with the items from a depth on. room is the free room at its prices.
func (b *branch) limit(depth int, value, room float64) float64 {
	return value + min(float64(b.ratio[depth]*room), room+b.surplus[depth])
}

// descend decides how many to take of the item at this depth.
func (b *branch) descend(depth int, value, room float64) {
	if value > b.best {
		b.best = value
		b.found = slices.Clone(b.taken)
	}
	if depth == len(b.order) {
		return
	}
	bound := b.limit(depth, value, room)
	if bound <= b.best || bound <= b.enough {
		return
	}
	if b.steps--; b.steps < 0 {
		b.skipped = max(b.skipped, bound)
		return
	}
	c := &b.order[depth]
	n := c.upper
	for j, r := range c.rows {
		// What fails to fit only because of rounding counts as fitting: a bound must not be too low.
		if free := b.free[r]; float64(c.size[j]*float64(n)) > free {
			n = min(n, int(max(free/c.size[j], 0)+1e-9))
		}
	}
	if n == 0 {
		b.descend(depth+1, value, room)
		return
	}
	b.take(c, n)
	for t := n; t >= 0; t-- {
		b.taken[c.item] = t
		b.descend(depth+1, value+float64(float64(t)*c.value), room-float64(float64(t)*c.price))
		if b.steps < 0 {
			for fewer := t - 1; fewer >= 0; fewer-- {
				v, left := value+float64(float64(fewer)*c.value), room-float64(float64(fewer)*c.price)
				b.skipped = max(b.skipped, b.limit(depth+1, v, left))
			}
			b.take(c, -t)
			break
		}
		if t > 0 {
			b.take(c, -1)
		}
	}
	b.taken[c.item] = 0
}

// take takes n more of the item.
func (b *branch) take(c *choice, n int) {
	for j, r := range c.rows {
		b.free[r] -= float64(float64(n) * c.size[j])
	}
}
