package binpack

import "slices"

// Bounds of the resource LP's size: beyond them it is relaxed, which keeps its bound valid.
const (
	mostGroups = 24 // of classes; the rest share one group that may use every bin
	mostSlots  = 24
	mostRounds = 2000
)

// prices are the shadow prices of a resource LP: what a unit of each dimension is worth to each group of classes, and what a
// place in a slot is worth.
type prices struct {
	group []int       // by class
	unit  [][]float64 // by group, dimension
	slot  []float64
}

// of is the value of one of the item.
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

// groups gathers the classes with the same open bins among those that wait. open is by group.
func (p *Problem) groups(left []int) (group []int, open []Set) {
	classes := 0
	for i := range p.Items {
		classes = max(classes, p.Items[i].Class+1)
	}
	waiting := make([]int, classes)
	for i := range p.Items {
		waiting[p.Items[i].Class] += left[i]
	}
	group = make([]int, classes)
	order := make([]int, 0, classes)
	for c, n := range waiting {
		group[c] = -1
		if n > 0 {
			order = append(order, c)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return waiting[b] - waiting[a] })
	for _, c := range order {
		bins := NewSet(len(p.Bins))
		for k := range p.Bins {
			if p.Bins[k].Open.Has(c) {
				bins.Add(k)
			}
		}
		g := slices.IndexFunc(open, func(o Set) bool { return slices.Equal(o, bins) })
		if g < 0 {
			g = len(open)
			if g < mostGroups {
				open = append(open, bins)
			} else {
				g--
				for w := range bins {
					open[g][w] |= bins[w]
				}
			}
		}
		group[c] = g
	}
	for c := range group {
		group[c] = max(group[c], 0)
	}
	if len(open) == 0 {
		open = append(open, NewSet(len(p.Bins)))
	}
	return group, open
}

// fluid is the LP in which things can be poured: each bin gives its size, dimension by dimension, to whichever group.
type fluid struct {
	p       *Problem
	open    []Set
	rows    [][]int // by group, dimension: row or -1
	slots   []int   // by slot: row or -1
	demand  []float64
	prices  prices
	groups  [][]int            // by bin: groups it is open to
	unit    [][MaxDims]float64 // by group, dimension: price at the master's duals
	slotted float64            // what a bin's slots are worth at them
}

// pour solves the resource LP for what is left. It gives the shadow prices and a certified lower bound of the cost.
func (p *Problem) pour(left []int) (*prices, float64) {
	f := &fluid{p: p}
	f.prices.group, f.open = p.groups(left)
	f.groups, f.unit = make([][]int, len(p.Bins)), make([][MaxDims]float64, len(f.open))
	for k := range p.Bins {
		for g := range f.open {
			if f.open[g].Has(k) {
				f.groups[k] = append(f.groups[k], g)
			}
		}
	}
	f.ask(left)
	f.solve()
	return &f.prices, f.bound(left)
}

// ask sets up a row for everything that is wanted.
func (f *fluid) ask(left []int) {
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
			f.rows[g][d] = f.row(amount[g][d])
		}
	}
	f.slots, f.prices.slot = make([]int, len(p.Slots)), make([]float64, len(p.Slots))
	order := make([]int, len(p.Slots))
	for s := range order {
		order[s], f.slots[s] = s, -1
	}
	need := func(s int) float64 { return takers[s] / float64(max(p.Slots[s], 1)) }
	slices.SortStableFunc(order, func(a, b int) int { return compareFloat(need(b), need(a)) })
	for _, s := range order[:min(len(order), mostSlots)] {
		if need(s) > 1 {
			f.slots[s] = f.row(takers[s])
		}
	}
}

func (p *Problem) soft(slot int) bool { return slot < len(p.Soft) && p.Soft[slot] }

func compareFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (f *fluid) row(demand float64) int {
	if demand <= 0 {
		return -1
	}
	f.demand = append(f.demand, demand)
	return len(f.demand) - 1
}

// solve leaves unit and slot prices. Rows are scaled to a demand of one.
func (f *fluid) solve() {
	first, ones := make([]*column, len(f.demand)), make([]float64, len(f.demand))
	for i := range ones {
		ones[i] = 1
	}
	for g := range f.rows {
		for d, row := range f.rows[g] {
			if row >= 0 {
				first[row] = f.best(row, func(k int) float64 {
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
			first[row] = f.best(row, func(int) float64 { return float64(f.p.Slots[s]) })
		}
	}
	if len(first) == 0 {
		return
	}
	l := newMaster(ones, first)
	for range mostRounds {
		if row := l.negativeDual(); row >= 0 {
			if !l.relax(row) {
				break
			}
			continue
		}
		c, reduced := f.price(l)
		if c == nil || reduced > -1e-7*c.cost || !l.enter(c) {
			break
		}
	}
	for g := range f.rows {
		for d, row := range f.rows[g] {
			if row >= 0 {
				f.prices.unit[g][d] = max(l.dual[row], 0) / f.demand[row]
			}
		}
	}
	for s, row := range f.slots {
		if row >= 0 {
			f.prices.slot[s] = max(l.dual[row], 0) / f.demand[row]
		}
	}
}
