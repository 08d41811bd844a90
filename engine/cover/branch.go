package cover

import "slices"

// branch looks for whole numbers of items that are worth most, depth first, and gives what it found and a bound that nothing
// exceeds: that of the parts it did not look into, once its steps are used up. Parts that cannot exceed enough are not
// looked into.
type branch struct {
	*knapsack
	order  []int // items by value for price
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

func (k *knapsack) branch(start []int, enough float64, steps int) (found []int, bound float64, left int) {
	n := len(k.items)
	b := &branch{knapsack: k, free: slices.Clone(k.full), steps: steps, enough: enough, taken: make([]int, n), found: start}
	for i, t := range start {
		b.best += float64(float64(t) * k.value[i])
	}
	each := make([]float64, n)
	for i := range n {
		b.order = append(b.order, i)
		each[i] = k.value[i] / max(k.priceOf(i), 1e-12)
	}
	slices.SortStableFunc(b.order, func(i, j int) int { return compareFloat(each[j], each[i]) })
	b.ratio, b.spare = make([]float64, n+1), make([]float64, n+1)
	for d := n - 1; d >= 0; d-- {
		i := b.order[d]
		b.spare[d] = b.spare[d+1] + float64(float64(k.upper[i])*max(k.value[i]-k.priceOf(i), 0))
		b.ratio[d] = max(b.ratio[d+1], each[b.order[d]])
	}
	b.down(0, 0)
	return b.found, max(b.best, b.open, min(b.enough, k.bound())), b.steps
}

// down decides how many to take of the item at this depth.
func (b *branch) down(depth int, value float64) {
	if value > b.best {
		b.best = value
		b.found = slices.Clone(b.taken)
	}
	if depth == len(b.order) {
		return
	}
	room := 0.0
	for r, y := range b.row {
		room += float64(y * b.free[r])
	}
	bound := value + min(float64(b.ratio[depth]*room), room+b.spare[depth])
	if bound <= b.best || bound <= b.enough {
		return
	}
	if b.steps--; b.steps < 0 {
		b.open = max(b.open, bound)
		return
	}
	i := b.order[depth]
	n := b.upper[i]
	for r, size := range b.size[i] {
		if size > 0 {
			n = min(n, int(b.free[r]/size))
		}
	}
	for t := n; t >= 0; t-- {
		for r, size := range b.size[i] {
			b.free[r] -= float64(float64(t) * size)
		}
		b.taken[i] = t
		b.down(depth+1, value+float64(float64(t)*b.value[i]))
		b.taken[i] = 0
		for r, size := range b.size[i] {
			b.free[r] += float64(float64(t) * size)
		}
	}
}
