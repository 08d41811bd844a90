package binpack

import (
	"cmp"
	"math"
	"slices"
)

// Limits of the size of the resource LP: beyond them it is relaxed, which keeps its bound valid.
const (
	maxGroups   = 24 // of classes; the rest share one group that may use every bin
	maxSlots    = 24
	maxLPRounds = 2000
)

// prices are the shadow prices of a resource LP: the value of a unit of each dimension to each group of classes, and of
// a place in a slot.
type prices struct {
	group []int       // by class
	unit  [][]float64 // by group, dimension
	slot  []float64
}

// of returns the value of one of the item.
func (y *prices) of(it *Item, dims int) float64 {
	sum := 0.0
	for d, u := range y.unit[y.group[it.Class]][:dims] {
		sum += float64(u * float64(it.Size[d]))
	}
	for _, s := range it.Slots {
		sum += y.slot[s]
	}
	return sum
}

// resourceLP is the covering LP in which items are divisible: a bin gives its size, dimension by dimension, to any
// groups of classes it is open to, and its places in slots. It has a row for each group and dimension, and for each
// slot, that is in demand, scaled to a demand of one. Its columns are generated: given the duals, a bin gives each
// dimension to the group that pays most.
type resourceLP struct {
	p       *Problem
	open    []Set   // by group: bins
	rows    [][]int // by group, dimension: row or -1
	slots   []int   // by slot: row or -1
	demand  []float64
	prices  prices
	groups  [][]int            // by bin: groups it is open to
	unit    [][MaxDims]float64 // by group, dimension: price at the master's duals
	slotted float64            // what a bin's slots are worth at them
}

// solveResourceLP solves the resource LP of what is left. It returns the shadow prices and a valid lower bound on the
// cost.
func (p *Problem) solveResourceLP(left []int) (*prices, float64) {
	f := &resourceLP{p: p}
	f.prices.group, f.open = p.classGroups(left)
	f.groups, f.unit = make([][]int, len(p.Bins)), make([][MaxDims]float64, len(f.open))
	for k := range p.Bins {
		for g := range f.open {
			if f.open[g].Has(k) {
				f.groups[k] = append(f.groups[k], g)
			}
		}
	}
	f.addRows(left)
	f.solve()
	return &f.prices, f.bound(left)
}

// classGroups groups the waiting classes that have the same open bins. open is by group.
func (p *Problem) classGroups(left []int) (group []int, open []Set) {
	classes := 0
	for i := range p.Items {
		classes = max(classes, p.Items[i].Class+1)
	}
	waiting := make([]int, classes)
	for i := range p.Items {
		waiting[p.Items[i].Class] += left[i]
	}
	order := make([]int, 0, classes)
	for c, n := range waiting {
		if n > 0 {
			order = append(order, c)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return waiting[b] - waiting[a] })
	group = make([]int, classes)
	for _, c := range order {
		bins := NewSet(len(p.Bins))
		for k := range p.Bins {
			if p.Bins[k].Open.Has(c) {
				bins.Add(k)
			}
		}
		g := slices.IndexFunc(open, func(o Set) bool { return slices.Equal(o, bins) })
		switch {
		case g >= 0:
		case len(open) < maxGroups:
			g = len(open)
			open = append(open, bins)
		default:
			g = maxGroups - 1
			for w := range bins {
				open[g][w] |= bins[w]
			}
		}
		group[c] = g
	}
	if len(open) == 0 {
		open = append(open, NewSet(len(p.Bins)))
	}
	return group, open
}

// addRows adds a row for everything that is in demand.
func (f *resourceLP) addRows(left []int) {
	p := f.p
	amount := make([][MaxDims]float64, len(f.open))
	takers := make([]float64, len(p.Slots))
	for i := range p.Items {
		it := &p.Items[i]
		n := float64(left[i])
		if n == 0 {
			continue
		}
		g := f.prices.group[it.Class]
		for d := range p.Dims {
			amount[g][d] += float64(n * float64(it.Size[d]))
		}
		for _, s := range it.Slots {
			if !p.soft(s) {
				takers[s] += n
			}
		}
	}
	f.rows = make([][]int, len(f.open))
	f.prices.unit = make([][]float64, len(f.open))
	for g := range f.open {
		f.rows[g], f.prices.unit[g] = make([]int, p.Dims), make([]float64, MaxDims)
		for d := range p.Dims {
			f.rows[g][d] = f.addRow(amount[g][d])
		}
	}
	f.slots, f.prices.slot = make([]int, len(p.Slots)), make([]float64, len(p.Slots))
	order := make([]int, len(p.Slots))
	for s := range order {
		order[s], f.slots[s] = s, -1
	}
	bins := func(s int) float64 { return takers[s] / float64(max(p.Slots[s], 1)) }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(bins(b), bins(a)) })
	for _, s := range order[:min(len(order), maxSlots)] {
		if bins(s) > 1 {
			f.slots[s] = f.addRow(takers[s])
		}
	}
}

// addRow returns a new row for the demand, or -1 if there is none.
func (f *resourceLP) addRow(demand float64) int {
	if demand <= 0 {
		return -1
	}
	f.demand = append(f.demand, demand)
	return len(f.demand) - 1
}

// solve sets prices to the duals of the optimum.
func (f *resourceLP) solve() {
	first, ones := make([]*column, len(f.demand)), make([]float64, len(f.demand))
	for i := range ones {
		ones[i] = 1
	}
	for g := range f.rows {
		for d, row := range f.rows[g] {
			if row >= 0 {
				first[row] = f.initialColumn(row, func(k int) float64 {
					if !f.open[g].Has(k) {
						return 0
					}
					return float64(f.p.Bins[k].Size[d])
				})
			}
		}
	}
	for s, row := range f.slots {
		if row >= 0 {
			first[row] = f.initialColumn(row, func(int) float64 { return float64(f.p.Slots[s]) })
		}
	}
	if len(first) == 0 {
		return
	}
	l := newMaster(ones, first)
	for range maxLPRounds {
		if row := l.negativeDual(); row >= 0 {
			if !l.enterSurplus(row) {
				break
			}
			continue
		}
		c, reduced := f.bestColumn(l)
		if c == nil || reduced > -1e-7*c.cost || !l.enter(c) {
			break
		}
	}
	price := func(row int) float64 { return max(l.dual[row], 0) / f.demand[row] }
	for g := range f.rows {
		for d, row := range f.rows[g] {
			if row >= 0 {
				f.prices.unit[g][d] = price(row)
			}
		}
	}
	for s, row := range f.slots {
		if row >= 0 {
			f.prices.slot[s] = price(row)
		}
	}
}

// initialColumn returns the column of the bin that gives most of one row for its price. If no bin gives any, an
// expensive artificial column stands in: the LP does not report infeasibility.
func (f *resourceLP) initialColumn(row int, gives func(bin int) float64) *column {
	out, best := &column{cost: 1e15, rows: []int32{int32(row)}, vals: []float64{1}}, 0.0
	for k := range f.p.Bins {
		price := float64(max(f.p.Bins[k].Price, 1))
		if v := gives(k); v > 0 && v/price > best {
			best = v / price
			out = &column{cost: price, rows: []int32{int32(row)}, vals: []float64{v / f.demand[row]}}
		}
	}
	return out
}

// bestColumn returns the column with the most negative reduced cost, nil if there is none.
func (f *resourceLP) bestColumn(l *master) (*column, float64) {
	f.readDuals(l)
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

// readDuals turns the duals into prices of units.
func (f *resourceLP) readDuals(l *master) {
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

// column returns the column in which the bin gives each dimension to the group that pays most for it.
func (f *resourceLP) column(l *master, bin int) *column {
	b := &f.p.Bins[bin]
	c := &column{cost: float64(max(b.Price, 1))}
	add := func(row int, amount int64) {
		c.rows, c.vals = append(c.rows, int32(row)), append(c.vals, float64(amount)/f.demand[row])
	}
	for d := range f.p.Dims {
		row, top := -1, 0.0
		for _, g := range f.groups[bin] {
			if f.unit[g][d] > top {
				row, top = f.rows[g][d], f.unit[g][d]
			}
		}
		if row >= 0 && b.Size[d] > 0 {
			add(row, b.Size[d])
		}
	}
	for s, row := range f.slots {
		if row >= 0 && l.dual[row] > 0 {
			add(row, int64(f.p.Slots[s]))
		}
	}
	return c
}

// capacityValue returns the most value that a bin can hold at the prices.
func (f *resourceLP) capacityValue(k int) float64 {
	sum := 0.0
	for d := range f.p.Dims {
		top := 0.0
		for _, g := range f.groups[k] {
			top = max(top, f.prices.unit[g][d])
		}
		sum += float64(top * float64(max(f.p.Bins[k].Size[d], 0)))
	}
	for s, u := range f.prices.slot {
		sum += float64(u * float64(f.p.Slots[s]))
	}
	return sum
}

// bound returns the value of what is left, lowered until no bin holds more than its price (Farley): nothing can cost
// less, whatever rounding did to the prices.
func (f *resourceLP) bound(left []int) float64 {
	sum, ratio := 0.0, 1.0
	for i := range f.p.Items {
		if left[i] > 0 {
			sum += float64(float64(left[i]) * f.prices.of(&f.p.Items[i], f.p.Dims))
		}
	}
	for k := range f.p.Bins {
		value := f.capacityValue(k)
		if value > 0 && f.p.Bins[k].Price <= 0 {
			return 0
		}
		if value > 0 {
			ratio = max(ratio, value/float64(f.p.Bins[k].Price))
		}
	}
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return 0
	}
	return sum / ratio * (1 - 1e-9)
}
