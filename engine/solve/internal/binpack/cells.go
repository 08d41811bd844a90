package binpack

import (
	"math"
	"slices"
)

const (
	maxCells  = 60  // rows of column generation if there are more items than it can have rows
	maxFloors = 160 // rows of a bound by floors
)

// withCells returns the problem whose relaxed items are cells of relaxed items of about equal size, the problem of
// the cells, and how many items wait in each. A cell has the mean size of its items: a load that fits with means
// nearly fits with the items, and disaggregate decides anew what each bin holds.
func (p *Problem) withCells(relaxed *Problem, left []int) (whole, cells *Problem, waiting []int) {
	of, n := relaxed.cells(left, 6, maxCells)
	w, c := *p, *relaxed
	c.Items, waiting = relaxed.merge(of, n, left, false)
	c.Relaxed, w.Relaxed = nil, c.Items
	w.Items = slices.Clone(p.Items)
	for i := range w.Items {
		if p.Relaxed == nil {
			w.Items[i].Relaxed = of[i]
		} else {
			w.Items[i].Relaxed = of[p.Items[i].Relaxed]
		}
	}
	return &w, &c, waiting
}

// floors returns a problem that costs no more and has few enough items for rows: each cell is as small as its
// smallest item.
func (p *Problem) floors(left []int) (*Problem, []int) {
	out := *p
	of, n := p.cells(left, 20, maxFloors)
	var waiting []int
	out.Items, waiting = p.merge(of, n, left, true)
	out.Relaxed = nil
	return &out, waiting
}

// cells assigns each item to one of at most limit cells, if that is possible: sizes in a cell are equal up to this
// many bits after the first, or fewer.
func (p *Problem) cells(left []int, bits, limit int) (of []int, n int) {
	for ; ; bits-- {
		if of, n = p.cellsOf(left, bits); n <= limit || bits == 0 {
			return of, n
		}
	}
}

func (p *Problem) cellsOf(left []int, bits int) (of []int, n int) {
	order := make([]int, len(p.Items))
	for i := range order {
		order[i] = i
	}
	compare := func(a, b int) int {
		x, y := &p.Items[a], &p.Items[b]
		if d := min(left[b], 1) - min(left[a], 1); d != 0 {
			return d
		}
		if d := x.Class - y.Class; d != 0 {
			return d
		}
		if d := x.Group - y.Group; d != 0 {
			return d
		}
		if d := slices.Compare(x.Slots, y.Slots); d != 0 {
			return d
		}
		for d := range p.Dims {
			if c := coarse(x.Size[d], bits) - coarse(y.Size[d], bits); c != 0 {
				return c
			}
		}
		return 0
	}
	slices.SortStableFunc(order, compare)
	of = make([]int, len(p.Items))
	for k, i := range order {
		if k > 0 && compare(order[k-1], i) != 0 {
			n++
		}
		of[i] = n
	}
	return of, n + 1
}

// coarse numbers the steps of a scale on which each doubling is divided into 2^bits steps.
func coarse(size int64, bits int) int {
	return int(math.Float64bits(float64(max(size, 0))) >> (52 - bits))
}

// merge returns an item for each of n cells, of the mean or the smallest size of the cell's waiting items, and how
// many wait in each.
func (p *Problem) merge(of []int, n int, left []int, smallest bool) (items []Item, waiting []int) {
	items, waiting = make([]Item, n), make([]int, n)
	sum := make([][MaxDims]float64, n)
	for i := range p.Items {
		it, c := &p.Items[i], of[i]
		if left[i] == 0 {
			continue
		}
		if waiting[c] == 0 {
			items[c] = *it
		}
		waiting[c] += left[i]
		for d := range p.Dims {
			items[c].Size[d] = min(items[c].Size[d], it.Size[d])
			sum[c][d] += float64(float64(it.Size[d]) * float64(left[i]))
		}
	}
	for c := range items {
		items[c].Count = waiting[c]
		for d := range p.Dims {
			if !smallest {
				items[c].Size[d] = int64(sum[c][d] / float64(max(waiting[c], 1)))
			}
		}
	}
	return items, waiting
}
