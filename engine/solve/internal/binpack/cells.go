package binpack

import (
	"math"
	"slices"
)

// mostCells is how many rows column generation has where there are more items than it can have rows.
const mostCells = 60

// mostFloors is how many rows a bound by floors has.
const mostFloors = 160

// cells gathers loose items of about the same size into one of their mean size, until few are left. What fits on paper with
// means fits about with the items: fit decides anew what each bin takes. cells is the problem of the cells, whole the given
// one with the cells as its loose items.
func (p *Problem) cells(loose *Problem, left []int) (whole, cells *Problem, waiting []int) {
	for bits := 6; ; bits-- {
		of, n := loose.gathered(left, bits)
		if n > mostCells && bits > 0 {
			continue
		}
		w, c := *p, *loose
		c.Items, waiting = loose.means(of, n, left)
		c.Loose, w.Loose = nil, c.Items
		w.Items = slices.Clone(p.Items)
		for i := range w.Items {
			if p.Loose == nil {
				w.Items[i].Loose = of[i]
			} else {
				w.Items[i].Loose = of[p.Items[i].Loose]
			}
		}
		return &w, &c, waiting
	}
}

// gathered gives each item a cell: sizes are equal up to so many bits after the first.
func (p *Problem) gathered(left []int, bits int) (of []int, n int) {
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
		if d := x.Kind - y.Kind; d != 0 {
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

func (p *Problem) means(of []int, n int, left []int) (items []Item, waiting []int) {
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
			sum[c][d] += float64(float64(it.Size[d]) * float64(left[i]))
		}
	}
	for c := range items {
		items[c].Count = waiting[c]
		for d := range p.Dims {
			items[c].Size[d] = int64(sum[c][d] / float64(max(waiting[c], 1)))
		}
	}
	return items, waiting
}

// withoutSoft is the problem without slots on which a bound must not count.
func (p *Problem) withoutSoft() *Problem {
	out := *p
	out.Items = slices.Clone(p.Items)
	for i := range out.Items {
		out.Items[i].Slots = slices.DeleteFunc(slices.Clone(out.Items[i].Slots), p.soft)
	}
	return &out
}

// floors gathers items of about the same size into one as small as the smallest of them, until there are few enough for rows.
func (p *Problem) floors(left []int) (*Problem, []int) {
	for bits := 20; ; bits-- {
		of, n := p.gathered(left, bits)
		if n > mostFloors && bits > 0 {
			continue
		}
		out := *p
		out.Items, out.Loose = make([]Item, n), nil
		waiting := make([]int, n)
		for i := range p.Items {
			c := of[i]
			if left[i] == 0 {
				continue
			}
			if waiting[c] == 0 {
				out.Items[c] = p.Items[i]
			}
			waiting[c] += left[i]
			for d := range p.Dims {
				out.Items[c].Size[d] = min(out.Items[c].Size[d], p.Items[i].Size[d])
			}
		}
		for c := range out.Items {
			out.Items[c].Count = waiting[c]
		}
		return &out, waiting
	}
}
