package binpack

import "math"

// boundedSimplex is the scratch of solveRelaxation: the tableau B⁻¹[A I], slack variables last.
type boundedSimplex struct {
	table          [][]float64
	reduced        []float64
	basis          []int
	x              []float64 // basic values
	upper          []float64 // bounds of the variables
	inBasis, above []bool    // above: not in the basis but at its upper bound
	load           []float64
}

// solveRelaxation solves the linear relaxation of the knapsack, in which items may be divided, by the simplex method
// for bounded variables (Dantzig, Econometrica 23, 1955). It sets the duals and returns how many of each item the bin
// would take.
func (k *knapsack) solveRelaxation() []float64 {
	s := &k.simplex
	k.startRelaxation()
	for range 60 + 4*len(k.items) {
		enter := s.entering()
		if enter < 0 {
			break
		}
		step, out, full := s.leaving(enter)
		if math.IsInf(step, 1) {
			break
		}
		s.pivot(enter, step, out, full)
	}
	n := len(k.items)
	for d := range k.dual {
		k.dual[d] = max(-s.reduced[n+d], 0)
	}
	for j := range n {
		if s.load[j] = 0; s.above[j] {
			s.load[j] = s.upper[j]
		}
	}
	for r, j := range s.basis {
		if j < n {
			s.load[j] = s.x[r]
		}
	}
	return s.load
}

// startRelaxation sets the tableau to the basis of all slacks.
func (k *knapsack) startRelaxation() {
	s, m, n := &k.simplex, len(k.capacity), len(k.items)
	if k.dual == nil {
		k.dual = make([]float64, m)
		*s = boundedSimplex{
			table: make([][]float64, m), basis: make([]int, m), load: make([]float64, n), reduced: make([]float64, n+m),
			upper: make([]float64, n+m), inBasis: make([]bool, n+m), above: make([]bool, n+m),
		}
		for r := range s.table {
			s.table[r] = make([]float64, n+m)
			s.upper[n+r] = math.Inf(1)
		}
		for j, u := range k.upper {
			s.upper[j] = float64(u)
		}
	}
	clear(s.above)
	clear(s.inBasis)
	clear(s.reduced[copy(s.reduced, k.value):])
	s.x = append(s.x[:0], k.capacity...)
	for r, row := range s.table {
		for i := range n {
			row[i] = k.size[i][r]
		}
		clear(row[n:])
		row[n+r] = 1
		s.basis[r], s.inBasis[n+r] = n+r, true
	}
}

// entering returns the variable that gains most, or -1.
func (s *boundedSimplex) entering() int {
	enter, top := -1, 1e-9
	for j, gain := range s.reduced {
		if s.above[j] {
			gain = -gain
		}
		if gain > top && !s.inBasis[j] {
			enter, top = j, gain
		}
	}
	return enter
}

// leaving returns how far the variable can move, the row that stops it (-1: its own upper bound), and whether the row's
// variable is then at its upper bound.
func (s *boundedSimplex) leaving(enter int) (step float64, out int, full bool) {
	sign := 1.0
	if s.above[enter] {
		sign = -1
	}
	step, out = s.upper[enter], -1
	for r, row := range s.table {
		a := row[enter] * sign
		switch upper := s.upper[s.basis[r]]; {
		case a > 1e-12:
			if t := s.x[r] / a; t < step {
				step, out, full = t, r, false
			}
		case a < -1e-12 && !math.IsInf(upper, 1):
			if t := (upper - s.x[r]) / -a; t < step {
				step, out, full = t, r, true
			}
		}
	}
	return max(step, 0), out, full
}

// pivot moves the variable by the step: into the basis in place of the row's variable, or to its other bound.
func (s *boundedSimplex) pivot(enter int, step float64, out int, full bool) {
	sign, value := 1.0, step
	if s.above[enter] {
		sign, value = -1, s.upper[enter]-step
	}
	for r, row := range s.table {
		s.x[r] -= float64(float64(row[enter]*sign) * step)
	}
	if out < 0 {
		s.above[enter] = !s.above[enter]
		return
	}
	was := s.basis[out]
	s.inBasis[was], s.inBasis[enter] = false, true
	s.above[was], s.above[enter] = full, false
	s.basis[out], s.x[out] = enter, value
	pivot := s.table[out]
	by := pivot[enter]
	for j := range pivot {
		pivot[j] /= by
	}
	for r, row := range s.table {
		if f := row[enter]; r != out && f != 0 {
			subtract(row, pivot, f)
		}
	}
	if f := s.reduced[enter]; f != 0 {
		subtract(s.reduced, pivot, f)
	}
}

// subtract subtracts f times b from a.
func subtract(a, b []float64, f float64) {
	b = b[:len(a)]
	for j := range a {
		a[j] -= float64(f * b[j])
	}
}
