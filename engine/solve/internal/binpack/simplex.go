package binpack

import "math"

// column is a sparse column of a covering LP.
type column struct {
	bin  int // of a pattern
	cost float64
	rows []int32
	vals []float64
}

// master is a restricted master problem: min c·x, A·x ≥ b, x ≥ 0. It is solved by the revised simplex method with an
// explicit inverse of the basis; columns enter one by one.
type master struct {
	m      int
	basis  []*column // nil = the surplus of row excess[i]
	excess []int
	inv    []float64 // m×m, row by row
	x      []float64
	dual   []float64
}

// newMaster starts from one column for each row that covers this row only.
func newMaster(b []float64, first []*column) *master {
	m := len(b)
	l := &master{
		m: m, basis: first, excess: make([]int, m), inv: make([]float64, m*m),
		x: make([]float64, m), dual: make([]float64, m),
	}
	for i, c := range first {
		l.inv[i*m+i] = 1 / c.vals[0]
		// A tiny, different shift of each row prevents cycling (Charnes, Econometrica 20, 1952).
		l.x[i] = float64(b[i]*(1+1e-10*float64(i+1))) / c.vals[0]
		l.dual[i] = c.cost / c.vals[0]
	}
	return l
}

// reduced returns the reduced cost of the column.
func (l *master) reduced(c *column) float64 {
	value := 0.0
	for i, r := range c.rows {
		value += float64(l.dual[r] * c.vals[i])
	}
	return c.cost - value
}

// enter brings a column with negative reduced cost into the basis. It reports whether it could.
func (l *master) enter(c *column) bool {
	d := make([]float64, l.m)
	for i := range l.m {
		row := l.inv[i*l.m : i*l.m+l.m]
		for k, r := range c.rows {
			d[i] += float64(row[r] * c.vals[k])
		}
	}
	return l.pivot(c, 0, d, l.reduced(c))
}

// enterSurplus brings in the surplus of a row whose dual is negative.
func (l *master) enterSurplus(row int) bool {
	d := make([]float64, l.m)
	for i := range l.m {
		d[i] = -l.inv[i*l.m+row]
	}
	return l.pivot(nil, row, d, l.dual[row])
}

// pivot exchanges the column, or the surplus of the row if it is nil, for the basic variable that reaches zero first. d
// is the column in terms of the basis.
func (l *master) pivot(c *column, row int, d []float64, reduced float64) bool {
	const tiny = 1e-11
	out, least := -1, math.Inf(1)
	for i, v := range d {
		if v > tiny {
			if ratio := l.x[i] / v; ratio < least {
				out, least = i, ratio
			}
		}
	}
	if out < 0 {
		return false
	}
	m := l.m
	leaving := l.inv[out*m : out*m+m]
	step := reduced / d[out]
	for j := range m {
		l.dual[j] += float64(step * leaving[j])
	}
	for j := range m {
		leaving[j] /= d[out]
	}
	for i := range m {
		if i == out || d[i] == 0 {
			continue
		}
		l.x[i] = max(l.x[i]-float64(least*d[i]), 0)
		row := l.inv[i*m : i*m+m]
		for j := range m {
			row[j] -= float64(d[i] * leaving[j])
		}
	}
	l.x[out] = least
	l.basis[out], l.excess[out] = c, row
	return true
}

// negativeDual returns the row with the most negative dual, or -1.
func (l *master) negativeDual() int {
	row, least := -1, -1e-9
	for i, y := range l.dual {
		if y < least {
			row, least = i, y
		}
	}
	return row
}
