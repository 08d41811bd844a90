package binpack

import "slices"

const (
	maxCount = 1 << 40
	maxPrice = 1 << 41
)

// normalized returns the problem without dimensions that no item needs, and with all numbers within bounds.
func (p *Problem) normalized() *Problem {
	var dims []int
	for d := range min(max(p.Dims, 0), MaxDims) {
		needs := func(it Item) bool { return it.Size[d] > 0 }
		if slices.ContainsFunc(p.Items, needs) || slices.ContainsFunc(p.Relaxed, needs) {
			dims = append(dims, d)
		}
	}
	project := func(v Vector) (out Vector) {
		for k, d := range dims {
			out[k] = max(v[d], 0)
		}
		return out
	}
	out := *p
	out.Dims = len(dims)
	out.Items, out.Relaxed, out.Bins = slices.Clone(p.Items), slices.Clone(p.Relaxed), slices.Clone(p.Bins)
	for _, items := range [][]Item{out.Items, out.Relaxed} {
		for i := range items {
			items[i].Size, items[i].Count = project(items[i].Size), min(max(items[i].Count, 0), maxCount)
		}
	}
	for k := range out.Bins {
		b := &out.Bins[k]
		b.Size, b.Price = project(b.Size), min(max(b.Price, 0), maxPrice)
	}
	return &out
}

// relaxed returns the problem of the relaxed items.
func (p *Problem) relaxed() *Problem {
	if p.Relaxed == nil {
		return p
	}
	out := *p
	out.Items, out.Relaxed = p.Relaxed, nil
	return &out
}

func (p *Problem) soft(slot int) bool { return slot < len(p.Soft) && p.Soft[slot] }

// allHard reports whether the bound may rely on all slots of the items.
func (p *Problem) allHard() bool {
	return !slices.ContainsFunc(p.Items, func(it Item) bool { return slices.ContainsFunc(it.Slots, p.soft) })
}

// withoutSoft returns the problem without the slots on which a bound must not rely.
func (p *Problem) withoutSoft() *Problem {
	out := *p
	out.Items = slices.Clone(p.Items)
	for i := range out.Items {
		out.Items[i].Slots = slices.DeleteFunc(slices.Clone(out.Items[i].Slots), p.soft)
	}
	return &out
}

// packable returns how many of each item some bin can hold: all or none.
func (p *Problem) packable() []int {
	out := make([]int, len(p.Items))
	for i := range p.Items {
		it := &p.Items[i]
		if it.Count <= 0 || slices.ContainsFunc(it.Slots, func(s int) bool { return p.Slots[s] < 1 }) {
			continue
		}
		for k := range p.Bins {
			if b := &p.Bins[k]; b.Open.Has(it.Class) && fits(p.Dims, &it.Size, &b.Size, 1) > 0 {
				out[i] = it.Count
				break
			}
		}
	}
	return out
}
