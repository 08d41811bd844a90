package binpack

import "math"

// best is the column of the bin that gives most of one row for its price. Where no bin gives any, a dear one stands in:
// what cannot be had at all is somebody else's to say.
func (f *fluid) best(row int, gives func(bin int) float64) *column {
	out, most := &column{cost: 1e15, rows: []int32{int32(row)}, vals: []float64{1}}, 0.0
	for k := range f.p.Bins {
		price := float64(max(f.p.Bins[k].Price, 1))
		if v := gives(k); v > 0 && v/price > most {
			most = v / price
			out = &column{cost: price, rows: []int32{int32(row)}, vals: []float64{v / f.demand[row]}}
		}
	}
	return out
}

// price is the bin that is worth most against its price at the master's duals.
func (f *fluid) price(l *master) (*column, float64) {
	f.quote(l)
	best, least := -1, 0.0
	for k := range f.p.Bins {
		b := &f.p.Bins[k]
		reduced := float64(max(b.Price, 1)) - f.slotted
		groups := f.groups[k]
		for d := range f.p.Dims {
			top := 0.0
			for _, g := range groups {
				top = max(top, f.unit[g][d])
			}
			reduced -= float64(top * float64(b.Size[d]))
		}
		if reduced < least {
			best, least = k, reduced
		}
	}
	if best < 0 {
		return nil, 0
	}
	return f.column(l, best), least
}

// quote reads the prices of units off the duals.
func (f *fluid) quote(l *master) {
	for g := range f.rows {
		for d, r := range f.rows[g] {
			if f.unit[g][d] = 0; r >= 0 {
				f.unit[g][d] = max(l.dual[r], 0) / f.demand[r]
			}
		}
	}
	f.slotted = 0
	for s, r := range f.slots {
		if r >= 0 && l.dual[r] > 0 {
			f.slotted += float64(l.dual[r] / f.demand[r] * float64(f.p.Slots[s]))
		}
	}
}

// column gives each dimension of the bin to the group that pays most for it.
func (f *fluid) column(l *master, bin int) *column {
	b := &f.p.Bins[bin]
	c := &column{cost: float64(max(b.Price, 1))}
	for d := range f.p.Dims {
		row, top := -1, 0.0
		for _, g := range f.groups[bin] {
			if f.unit[g][d] > top {
				row, top = f.rows[g][d], f.unit[g][d]
			}
		}
		if row >= 0 && b.Size[d] > 0 {
			c.rows, c.vals = append(c.rows, int32(row)), append(c.vals, float64(b.Size[d])/f.demand[row])
		}
	}
	for s, row := range f.slots {
		if row >= 0 && l.dual[row] > 0 {
			c.rows, c.vals = append(c.rows, int32(row)), append(c.vals, float64(f.p.Slots[s])/f.demand[row])
		}
	}
	return c
}

// worth is the most that a bin can hold in value.
func (f *fluid) worth(k int) float64 {
	sum := 0.0
	for d := range f.p.Dims {
		most := 0.0
		for _, g := range f.groups[k] {
			most = max(most, f.prices.unit[g][d])
		}
		sum += float64(most * float64(max(f.p.Bins[k].Size[d], 0)))
	}
	for s, u := range f.prices.slot {
		sum += float64(u * float64(f.p.Slots[s]))
	}
	return sum
}

// bound is what is left is worth, lowered until no bin holds more than its price (Farley): whatever rounding did to the
// prices, nothing can cost less.
func (f *fluid) bound(left []int) float64 {
	sum, most := 0.0, 1.0
	for i := range f.p.Items {
		if left[i] > 0 {
			sum += float64(float64(left[i]) * f.prices.of(&f.p.Items[i], f.p.Dims))
		}
	}
	for k := range f.p.Bins {
		worth := f.worth(k)
		if worth > 0 && f.p.Bins[k].Price <= 0 {
			return 0
		}
		if worth > 0 {
			most = max(most, worth/float64(f.p.Bins[k].Price))
		}
	}
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return 0
	}
	return sum / most * (1 - 1e-9)
}
