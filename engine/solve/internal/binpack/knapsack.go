package binpack

import "math"

// knapsack is the question what a bin can hold at most, in value.
type knapsack struct {
	bin    int
	cost   float64
	price  float64 // cost, but at least 1
	items  []int   // of the problem
	value  []float64
	size   [][]float64
	rows   [][]int     // the rows of size that are not 0
	sizes  [][]float64 // there
	upper  []int       // most of each that a bin can have
	full   []float64
	budget int       // steps of depth-first search
	row    []float64 // the prices of the rows that were found last; nil = none yet
	simplex
}

// simplex is the scratch of relaxed: rows of B⁻¹[A I], slacks last.
type simplex struct {
	table          [][]float64
	reduced        []float64
	basis          []int
	x              []float64 // basic values
	most           []float64 // upper bounds
	inBasis, above []bool    // above: not in the basis but at its upper bound
	take           []float64
}

// relaxed solves the linear relaxation: items may be cut. It leaves prices of the rows at which the bin is worth that much,
// and gives how many of each item it would take. Simplex with bounds on few rows.
func (k *knapsack) relaxed() []float64 {
	k.start()
	for range 60 + 4*len(k.items) {
		enter := k.entering()
		if enter < 0 {
			break
		}
		step, out, full := k.leaving(enter)
		if math.IsInf(step, 1) {
			break
		}
		k.move(enter, step, out, full)
	}
	m, n := len(k.full), len(k.items)
	for r := range m {
		k.row[r] = max(-k.reduced[n+r], 0)
	}
	for j := range n {
		if k.take[j] = 0; k.above[j] {
			k.take[j] = k.most[j]
		}
	}
	for r, j := range k.basis {
		if j < n {
			k.take[j] = k.x[r]
		}
	}
	return k.take
}

func (k *knapsack) start() {
	m, n := len(k.full), len(k.items)
	if k.row == nil {
		k.row, k.table, k.basis, k.take = make([]float64, m), make([][]float64, m), make([]int, m), make([]float64, n)
		k.reduced, k.most, k.inBasis, k.above = make([]float64, n+m), make([]float64, n+m), make([]bool, n+m), make([]bool, n+m)
		for r := range k.table {
			k.table[r] = make([]float64, n+m)
			k.most[n+r] = math.Inf(1)
		}
		for j, u := range k.upper {
			k.most[j] = float64(u)
		}
	}
	clear(k.above)
	clear(k.inBasis)
	clear(k.reduced[copy(k.reduced, k.value):])
	k.x = append(k.x[:0], k.full...)
	for r, row := range k.table {
		for i := range n {
			row[i] = k.size[i][r]
		}
		clear(row[n:])
		row[n+r] = 1
		k.basis[r], k.inBasis[n+r] = n+r, true
	}
}

// entering is the variable that gains most, or -1.
func (k *knapsack) entering() int {
	enter, most := -1, 1e-9
	for j, gain := range k.reduced {
		if k.above[j] {
			gain = -gain
		}
		if gain > most && !k.inBasis[j] {
			enter, most = j, gain
		}
	}
	return enter
}

// leaving is how far the variable can move, the row that stops it (-1: its own upper bound), and whether that row's variable
// is then at its upper bound.
func (k *knapsack) leaving(enter int) (step float64, out int, full bool) {
	sign := 1.0
	if k.above[enter] {
		sign = -1
	}
	step, out = k.most[enter], -1
	for r, row := range k.table {
		a := row[enter] * sign
		switch most := k.most[k.basis[r]]; {
		case a > 1e-12:
			if t := k.x[r] / a; t < step {
				step, out, full = t, r, false
			}
		case a < -1e-12 && !math.IsInf(most, 1):
			if t := (most - k.x[r]) / -a; t < step {
				step, out, full = t, r, true
			}
		}
	}
	return max(step, 0), out, full
}

func (k *knapsack) move(enter int, step float64, out int, full bool) {
	sign, value := 1.0, step
	if k.above[enter] {
		sign, value = -1, k.most[enter]-step
	}
	for r, row := range k.table {
		k.x[r] -= float64(float64(row[enter]*sign) * step)
	}
	if out < 0 {
		k.above[enter] = !k.above[enter]
		return
	}
	was := k.basis[out]
	k.inBasis[was], k.inBasis[enter] = false, true
	k.above[was], k.above[enter] = full, false
	k.basis[out], k.x[out] = enter, value
	pivot := k.table[out]
	by := pivot[enter]
	for j := range pivot {
		pivot[j] /= by
	}
	for r, row := range k.table {
		if f := row[enter]; r != out && f != 0 {
			less(row, pivot, f)
		}
	}
	if f := k.reduced[enter]; f != 0 {
		less(k.reduced, pivot, f)
	}
}

// less takes f times b from a.
func less(a, b []float64, f float64) {
	b = b[:len(a)]
	for j := range a {
		a[j] -= float64(f * b[j])
	}
}

// bound is how much the bin can hold in value at most, by the row prices: valid whatever they are.
func (k *knapsack) bound() float64 {
	sum := 0.0
	for r, y := range k.row {
		sum += float64(y * k.full[r])
	}
	for i := range k.items {
		sum += float64(float64(k.upper[i]) * max(k.value[i]-k.priceOf(i), 0))
	}
	return sum
}

func (k *knapsack) priceOf(i int) float64 {
	sum := 0.0
	size := k.size[i][:len(k.row)]
	for r, y := range k.row {
		sum += float64(y * size[r])
	}
	return sum
}
