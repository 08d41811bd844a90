package binpack

import (
	"math/rand/v2"
	"testing"
)

// optimum returns the lowest cost of all items, found by trying every partition; -1 if some item has no bin.
func optimum(p *Problem) int64 {
	var things []int
	for i := range p.Items {
		for range p.Items[i].Count {
			things = append(things, i)
		}
	}
	all := 1<<len(things) - 1
	alone, best := make([]int64, all+1), make([]int64, all+1)
	for set := 1; set <= all; set++ {
		alone[set] = p.cheapest(things, set)
	}
	for set := 1; set <= all; set++ {
		best[set] = -1
		first := set & -set
		for part := set; part > 0; part = (part - 1) & set {
			if part&first == 0 || alone[part] < 0 || best[set^part] < 0 {
				continue
			}
			if cost := alone[part] + best[set^part]; best[set] < 0 || cost < best[set] {
				best[set] = cost
			}
		}
	}
	return best[all]
}

// cheapest returns the price of the cheapest bin that holds the set of items, or -1.
func (p *Problem) cheapest(things []int, set int) int64 {
	var sum Vector
	slots := make([]int, len(p.Slots))
	for a, i := range things {
		if set>>a&1 == 0 {
			continue
		}
		for d := range p.Dims {
			sum[d] += p.Items[i].Size[d]
		}
		for _, s := range p.Items[i].Slots {
			if slots[s]++; slots[s] > p.Slots[s] {
				return -1
			}
		}
		for b, j := range things[:a] {
			if set>>b&1 > 0 && len(p.Conflicts) > 0 && p.Conflicts[p.Items[i].Group].Has(p.Items[j].Group) {
				return -1
			}
		}
	}
	best := int64(-1)
	for k := range p.Bins {
		ok := fits(p.Dims, &sum, &p.Bins[k].Size, 1) > 0
		for a, i := range things {
			ok = ok && (set>>a&1 == 0 || p.Bins[k].Open.Has(p.Items[i].Class))
		}
		if ok && (best < 0 || p.Bins[k].Price < best) {
			best = p.Bins[k].Price
		}
	}
	return best
}

func TestBoundIsNotAboveTheOptimum(t *testing.T) {
	solved, reached := 0, 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 6))
		p := some(r, 1+r.IntN(4), 3)
		for i := range p.Pools {
			p.Pools[i] = Pool{Count: 1 << 40, Left: []int64{1 << 60}}
		}
		best := optimum(p)
		if best < 0 {
			continue
		}
		s := Solve(p, Options{})
		if s.Bound > best || s.Cost < best || Bound(p) > best {
			t.Fatalf("seed %d: optimum %d, bound %d, resource bound %d, cost %d", seed, best, s.Bound, Bound(p), s.Cost)
		}
		if solved++; s.Cost == best {
			reached++
		}
	}
	if solved < 100 || reached*10 < solved*8 {
		t.Errorf("of %d problems %d were solved at least cost", solved, reached)
	}
}
