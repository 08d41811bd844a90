package binpack

import (
	"math"
	"math/rand/v2"
	"testing"
)

// plain returns a problem with one pool, whose bins are open to all items.
func plain(items []Item, bins ...Bin) *Problem {
	open := NewSet(1)
	open.Add(0)
	for k := range bins {
		bins[k].Open = open
	}
	return &Problem{Dims: 2, Items: items, Bins: bins, Pools: []Pool{{Count: 1 << 40}}}
}

func TestNothingToDo(t *testing.T) {
	bin := Bin{Size: Vector{10, 10}, Price: 5}
	for name, p := range map[string]*Problem{ // order does not matter: the cases are independent
		"empty":    {},
		"no items": plain(nil, bin),
		"no count": plain([]Item{{Size: Vector{1, 1}}}, bin),
		"negative": plain([]Item{{Size: Vector{1, 1}, Count: -3}}, bin),
	} {
		t.Run(name, func(t *testing.T) {
			if s := Solve(p, Options{}); len(s.Patterns) != 0 || s.Cost != 0 || s.Bound != 0 {
				t.Errorf("bought %v for %d", s.Patterns, s.Cost)
			}
		})
	}
}

func TestItemWithoutABin(t *testing.T) {
	for name, p := range map[string]*Problem{ // order does not matter: the cases are independent
		"no bins":   plain([]Item{{Size: Vector{1, 1}, Count: 4}}),
		"too big":   plain([]Item{{Size: Vector{11, 1}, Count: 4}}, Bin{Size: Vector{10, 10}, Price: 5}),
		"huge":      plain([]Item{{Size: Vector{math.MaxInt64, 1}, Count: 4}}, Bin{Size: Vector{10, 10}, Price: 5}),
		"negative":  plain([]Item{{Size: Vector{1, 1}, Count: 4}}, Bin{Size: Vector{-10, 10}, Price: 5}),
		"shut pool": {Dims: 1, Items: []Item{{Count: 4}}, Bins: []Bin{{Price: 1, Open: Set{1}}}, Pools: []Pool{{Count: -1}}},
		"no slot": {
			Items: []Item{{Count: 4, Slots: []int{0}}}, Bins: []Bin{{Open: Set{1}}}, Pools: []Pool{{Count: 9}}, Slots: []int{0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if s := Solve(p, Options{}); s.Left[0] != 4 || len(s.Patterns) != 0 {
				t.Errorf("left %v, bought %v", s.Left, s.Patterns)
			}
		})
	}
}

func TestItemsWithoutSizeShareOneBin(t *testing.T) {
	p := plain([]Item{{Count: 1e9}, {Size: Vector{-5, -7}, Count: 3}}, Bin{Size: Vector{10, 10}, Price: 5})
	if s := Solve(p, Options{}); s.Cost != 5 || s.Left[0] != 0 || s.Left[1] != 0 {
		t.Errorf("left %v, cost %d, %v", s.Left, s.Cost, s.Patterns)
	}
}

func TestBillionsOfItems(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var items []Item
	for range 30 {
		items = append(items, Item{Size: Vector{int64(1 + r.IntN(50)), int64(1 + r.IntN(50))}, Count: 1e9 + r.IntN(1000)})
	}
	p := plain(items, Bin{Size: Vector{100, 100}, Price: 10}, Bin{Size: Vector{200, 100}, Price: 14},
		Bin{Size: Vector{1000, 3000}, Price: 170})
	s := Solve(p, Options{})
	judge(t, p, s)
	if s.Partial || float64(s.Cost) > 1.02*float64(s.Bound) {
		t.Errorf("cost %d, bound %d, partial %v", s.Cost, s.Bound, s.Partial)
	}
}

func TestFreeBinsCostNothing(t *testing.T) {
	p := plain([]Item{{Size: Vector{3, 1}, Count: 100}}, Bin{Size: Vector{10, 10}}, Bin{Size: Vector{100, 100}, Price: 1})
	s := Solve(p, Options{})
	judge(t, p, s)
	if s.Left[0] != 0 || s.Bound != 0 {
		t.Errorf("left %v, bound %d", s.Left, s.Bound)
	}
}

// Whatever the numbers are, there is a valid solution.
func TestAbsurdNumbers(t *testing.T) {
	odd := []int64{math.MinInt64, -1, 0, 1, 2, 1 << 20, 1 << 40, 1 << 53, 1<<62 + 1, math.MaxInt64}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 9))
		pick := func() int64 { return odd[r.IntN(len(odd))] }
		p := some(r, 1+r.IntN(8), 20)
		for i := range p.Items {
			p.Items[i].Size[r.IntN(4)] = pick()
			if r.IntN(3) == 0 {
				p.Items[i].Count = int(pick())
			}
		}
		for k := range p.Bins {
			p.Bins[k].Size[r.IntN(4)] = pick()
			if r.IntN(3) == 0 {
				p.Bins[k].Price = pick()
			}
			if len(p.Bins[k].Charge) > 0 {
				p.Bins[k].Charge[0] = pick()
			}
		}
		s := Solve(p, Options{Steps: 200_000})
		if s.Cost < 0 || s.Bound < 0 || s.Bound > s.Cost {
			t.Fatalf("seed %d: cost %d, bound %d", seed, s.Cost, s.Bound)
		}
		for i, n := range s.Left {
			if n < 0 || n > max(p.Items[i].Count, 0) {
				t.Fatalf("seed %d: %d left of %d", seed, n, p.Items[i].Count)
			}
		}
	}
}
