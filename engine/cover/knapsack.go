package cover

import (
	"math"
	"slices"
)

// knapsack is the question what a bin can hold at most, in value.
type knapsack struct {
	items []int     // of the problem
	value []float64 // each
	size  [][]float64
	upper []int // most of each that a bin can have
	full  []float64
}

// relaxed solves the linear relaxation: items may be cut. It gives prices of the rows at which the bin is worth that much, and
// how many of each item it would take. Simplex with bounds on few rows.
func (k *knapsack) relaxed() (row, take []float64) {
	m, n := len(k.full), len(k.items)
	table := make([][]float64, m) // rows of B⁻¹[A I]
	basis := make([]int, m)       // n+r = slack of row r
	x := slices.Clone(k.full)     // basic values
	for r := range table {
		table[r] = make([]float64, n+m)
		for i := range n {
			table[r][i] = k.size[i][r]
		}
		table[r][n+r] = 1
		basis[r] = n + r
	}
	cost := make([]float64, n+m) // reduced
	copy(cost, k.value)
	atUpper := make([]bool, n+m)
	upper := func(j int) float64 {
		if j < n {
			return float64(k.upper[j])
		}
		return math.Inf(1)
	}
	inBasis := make([]bool, n+m)
	for _, j := range basis {
		inBasis[j] = true
	}
	for range 60 + 4*n {
		enter, most := -1, 1e-9
		for j := range cost {
			if inBasis[j] {
				continue
			}
			gain := cost[j]
			if atUpper[j] {
				gain = -gain
			}
			if gain > most {
				enter, most = j, gain
			}
		}
		if enter < 0 {
			break
		}
		sign := 1.0
		if atUpper[enter] {
			sign = -1
		}
		step, out, toUpper := upper(enter), -1, false
		for r := range m {
			a := table[r][enter] * sign
			switch {
			case a > 1e-12:
				if t := x[r] / a; t < step {
					step, out, toUpper = t, r, false
				}
			case a < -1e-12 && !math.IsInf(upper(basis[r]), 1):
				if t := (upper(basis[r]) - x[r]) / -a; t < step {
					step, out, toUpper = t, r, true
				}
			}
		}
		if math.IsInf(step, 1) {
			break
		}
		step = max(step, 0)
		for r := range m {
			x[r] -= float64(float64(table[r][enter]*sign) * step)
		}
		if out < 0 {
			atUpper[enter] = !atUpper[enter]
			continue
		}
		value := step
		if atUpper[enter] {
			value = upper(enter) - step
		}
		leaving := basis[out]
		inBasis[leaving], inBasis[enter] = false, true
		atUpper[leaving], atUpper[enter] = toUpper, false
		basis[out], x[out] = enter, value
		pivot := table[out][enter]
		for j := range table[out] {
			table[out][j] /= pivot
		}
		for r := range m {
			if f := table[r][enter]; r != out && f != 0 {
				for j := range table[r] {
					table[r][j] -= float64(f * table[out][j])
				}
			}
		}
		if f := cost[enter]; f != 0 {
			for j := range cost {
				cost[j] -= float64(f * table[out][j])
			}
		}
	}
	row, take = make([]float64, m), make([]float64, n)
	for r := range m {
		row[r] = max(-cost[n+r], 0)
	}
	for j := range n {
		if atUpper[j] {
			take[j] = float64(k.upper[j])
		}
	}
	for r, j := range basis {
		if j < n {
			take[j] = x[r]
		}
	}
	return row, take
}

// most is how much the bin can hold in value at most, by the row prices: valid whatever they are.
func (k *knapsack) most(row []float64) float64 {
	sum := 0.0
	for r, y := range row {
		sum += float64(y * k.full[r])
	}
	for i := range k.items {
		sum += float64(float64(k.upper[i]) * max(k.value[i]-k.price(i, row), 0))
	}
	return sum
}

func (k *knapsack) price(i int, row []float64) float64 {
	sum := 0.0
	for r, y := range row {
		sum += float64(y * k.size[i][r])
	}
	return sum
}

// branch looks for whole numbers of items that are worth most, depth first, and gives what it found and a bound that nothing
// exceeds: that of the parts it did not look into, once its steps are used up. Parts that cannot exceed enough are not
// looked into.
type branch struct {
	*knapsack
	row    []float64
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

func (k *knapsack) branch(row []float64, start []int, enough float64, steps int) (found []int, bound float64) {
	n := len(k.items)
	b := &branch{knapsack: k, row: row, free: slices.Clone(k.full), steps: steps, enough: enough, taken: make([]int, n), found: start}
	for i, t := range start {
		b.best += float64(float64(t) * k.value[i])
	}
	each := make([]float64, n)
	for i := range n {
		b.order = append(b.order, i)
		each[i] = k.value[i] / max(k.price(i, row), 1e-12)
	}
	slices.SortStableFunc(b.order, func(i, j int) int { return compareFloat(each[j], each[i]) })
	b.ratio, b.spare = make([]float64, n+1), make([]float64, n+1)
	for d := n - 1; d >= 0; d-- {
		i := b.order[d]
		b.spare[d] = b.spare[d+1] + float64(float64(k.upper[i])*max(k.value[i]-k.price(i, row), 0))
		b.ratio[d] = max(b.ratio[d+1], each[b.order[d]])
	}
	b.down(0, 0)
	return b.found, max(b.best, b.open, min(b.enough, k.most(row)))
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
