package binpack

import (
	"math"
	"slices"
)

const (
	mostCount = 1 << 40
	mostPrice = 1 << 41
)

// sane is the problem without what no item needs: dimensions, and numbers below 0 or beyond all measure.
func (p *Problem) sane() *Problem {
	var dims []int
	for d := range min(max(p.Dims, 0), MaxDims) {
		needs := func(it Item) bool { return it.Size[d] > 0 }
		if slices.ContainsFunc(p.Items, needs) || slices.ContainsFunc(p.Loose, needs) {
			dims = append(dims, d)
		}
	}
	short := func(v Vector) (out Vector) {
		for k, d := range dims {
			out[k] = max(v[d], 0)
		}
		return out
	}
	out := *p
	out.Dims = len(dims)
	out.Items, out.Loose, out.Bins = slices.Clone(p.Items), slices.Clone(p.Loose), slices.Clone(p.Bins)
	for _, items := range [][]Item{out.Items, out.Loose} {
		for i := range items {
			items[i].Size, items[i].Count = short(items[i].Size), min(max(items[i].Count, 0), mostCount)
		}
	}
	for k := range out.Bins {
		out.Bins[k].Size, out.Bins[k].Price = short(out.Bins[k].Size), min(max(out.Bins[k].Price, 0), mostPrice)
	}
	return &out
}

// loosened is the problem of the loose items.
func (p *Problem) loosened() *Problem {
	if p.Loose == nil {
		return p
	}
	out := *p
	out.Items, out.Loose = p.Loose, nil
	return &out
}

// strict reports whether all slots count for the bound.
func (p *Problem) strict() bool {
	for i := range p.Items {
		for _, s := range p.Items[i].Slots {
			if p.soft(s) {
				return false
			}
		}
	}
	return true
}

// holdable is how many of each item some bin can hold: all or none.
func (p *Problem) holdable(items []Item) []int {
	out := make([]int, len(items))
	for i := range items {
		it := &items[i]
		for _, s := range it.Slots {
			if p.Slots[s] < 1 {
				it = nil
				break
			}
		}
		if it == nil || it.Count <= 0 {
			continue
		}
		for k := range p.Bins {
			if p.Bins[k].Open.Has(it.Class) && fits(p.Dims, &it.Size, &p.Bins[k].Size, 1) > 0 {
				out[i] = it.Count
				break
			}
		}
	}
	return out
}

// Bound is a lower bound of what bins cost for all items that some bin can hold: that of the resource LP.
func Bound(p *Problem) int64 {
	p = p.sane()
	_, bound := p.pour(p.holdable(p.Items))
	return int64(math.Floor(max(bound, 0)))
}
