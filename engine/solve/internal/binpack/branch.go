package binpack

import "slices"

// branch looks for whole numbers of items that are worth most, depth first, and gives what it found and a bound that nothing
// exceeds: that of the parts it did not look into, once its steps are used up. Parts that cannot exceed enough are not
// looked into.
type branch struct {
	*knapsack
	order  []choice // by value for price
	ratio  []float64
	spare  []float64 // value beyond price of those from here on
	free   []float64
	steps  int
	enough float64
	best   float64
	taken  []int
	found  []int
	open   float64
}

// choice is how many of an item to take.
type choice struct {
	item         int
	value, price float64
	ratio        float64 // value for price
	rows         []int   // of which it takes something
	size         []float64
	upper        int
}

func (k *knapsack) branch(start []int, enough float64, steps int) (found []int, bound float64, left int) {
	n := len(k.items)
	b := &branch{
		knapsack: k, order: make([]choice, n), ratio: make([]float64, n+1), spare: make([]float64, n+1),
		free: slices.Clone(k.full), steps: steps, enough: enough, taken: make([]int, n), found: start,
	}
	b.best = k.worth(start)
	for i := range n {
		price := k.priceOf(i)
		b.order[i] = choice{i, k.value[i], price, k.value[i] / max(price, 1e-12), k.rows[i], k.sizes[i], k.upper[i]}
	}
	slices.SortStableFunc(b.order, func(x, y choice) int { return compareFloat(y.ratio, x.ratio) })
	for d := n - 1; d >= 0; d-- {
		c := &b.order[d]
		b.spare[d] = b.spare[d+1] + float64(float64(c.upper)*max(c.value-c.price, 0))
		b.ratio[d] = max(b.ratio[d+1], c.ratio)
	}
	room := 0.0
	for r, y := range k.row {
		room += float64(y * k.full[r])
	}
	b.down(0, 0, room)
	return b.found, max(b.best, b.open, min(b.enough, k.bound())), b.steps
}

// down decides how many to take of the item at this depth. room is what is free, at the prices of the rows.
func (b *branch) down(depth int, value, room float64) {
	if value > b.best {
		b.best = value
		b.found = slices.Clone(b.taken)
	}
	if depth == len(b.order) {
		return
	}
	bound := value + min(float64(b.ratio[depth]*room), room+b.spare[depth])
	if bound <= b.best || bound <= b.enough {
		return
	}
	if b.steps--; b.steps < 0 {
		b.open = max(b.open, bound)
		return
	}
	c := &b.order[depth]
	n := c.upper
	for j, r := range c.rows {
		// What fits but for rounding fits: a bound must not be too low.
		if free := b.free[r]; float64(c.size[j]*float64(n)) > free {
			n = min(n, int(max(free/c.size[j], 0)+1e-9))
		}
	}
	if n == 0 {
		b.down(depth+1, value, room)
		return
	}
	b.change(c, n)
	for t := n; t >= 0; t-- {
		b.taken[c.item] = t
		b.down(depth+1, value+float64(float64(t)*c.value), room-float64(float64(t)*c.price))
		if b.steps < 0 {
			b.rest(c, depth, t-1, value, room)
			b.change(c, -t)
			break
		}
		if t > 0 {
			b.change(c, -1)
		}
	}
	b.taken[c.item] = 0
}

// rest notes the most that those numbers of the item could give that there are no steps for.
func (b *branch) rest(c *choice, depth, t int, value, room float64) {
	for ; t >= 0; t-- {
		v, left := value+float64(float64(t)*c.value), room-float64(float64(t)*c.price)
		b.open = max(b.open, v+min(float64(b.ratio[depth+1]*left), left+b.spare[depth+1]))
	}
}

// change takes n more of the item.
func (b *branch) change(c *choice, n int) {
	for j, r := range c.rows {
		b.free[r] -= float64(float64(n) * c.size[j])
	}
}
