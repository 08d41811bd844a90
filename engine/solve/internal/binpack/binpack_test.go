package binpack

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// judge checks a solution against the problem alone.
func judge(t *testing.T, p *Problem, s Solution) {
	t.Helper()
	got := make([]int, len(p.Items))
	count, charged := make([]int, len(p.Pools)), make([][]int64, len(p.Pools))
	for i := range p.Pools {
		charged[i] = make([]int64, len(p.Pools[i].Left))
	}
	var cost int64
	for _, x := range s.Patterns {
		b := &p.Bins[x.Bin]
		cost += int64(x.Times) * b.Price
		count[b.Pool] += x.Times
		for i, c := range b.Charge {
			charged[b.Pool][i] += int64(x.Times) * max(c, 0)
		}
		for _, k := range x.Items {
			got[k.Item] += k.N * x.Times
			if k.N <= 0 {
				t.Errorf("bin %d takes %d of item %d", x.Bin, k.N, k.Item)
			}
		}
		judgeBin(t, p, b, x.Items)
	}
	for i := range p.Items {
		if got[i]+s.Left[i] != p.Items[i].Count || got[i] < 0 || s.Left[i] < 0 {
			t.Errorf("item %d: %d packed and %d left of %d", i, got[i], s.Left[i], p.Items[i].Count)
		}
	}
	for i, room := range p.Pools {
		if count[i] > max(room.Count, 0) {
			t.Errorf("pool %d: %d bins of %d", i, count[i], room.Count)
		}
		for k, c := range charged[i] {
			if c > max(room.Left[k], 0) {
				t.Errorf("pool %d: %d of quantity %d, limit %d", i, c, k, room.Left[k])
			}
		}
	}
	if cost != s.Cost || s.Bound > s.Cost || s.Bound < 0 {
		t.Errorf("cost %d, said %d, bound %d", cost, s.Cost, s.Bound)
	}
}

func judgeBin(t *testing.T, p *Problem, b *Bin, items []ItemCount) {
	t.Helper()
	slots := make([]int, len(p.Slots))
	for d := range p.Dims {
		used := int64(0)
		for _, k := range items {
			used += int64(k.N) * max(p.Items[k.Item].Size[d], 0)
		}
		if used > max(b.Size[d], 0) {
			t.Errorf("a bin of size %d holds %d in dimension %d", b.Size[d], used, d)
		}
	}
	for a, k := range items {
		it := &p.Items[k.Item]
		if !b.Open.Has(it.Class) {
			t.Errorf("class %d is in a bin that is not open to it", it.Class)
		}
		for _, s := range it.Slots {
			if slots[s] += k.N; slots[s] > p.Slots[s] {
				t.Errorf("slot %d has more than %d takers", s, p.Slots[s])
			}
		}
		for _, o := range items[a:] {
			if len(p.Conflicts) > 0 && p.Conflicts[it.Group].Has(p.Items[o.Item].Group) && (o.Item != k.Item || k.N > 1) {
				t.Errorf("groups %d and %d are together", it.Group, p.Items[o.Item].Group)
			}
		}
	}
}

// some returns a random problem with the given number of items, each with a count of up to each, and all other
// features of a problem.
func some(r *rand.Rand, items, each int) *Problem {
	const classes, groups = 4, 3
	p := &Problem{Dims: 1 + r.IntN(4), Slots: []int{1, 1 + r.IntN(3)}}
	if r.IntN(2) == 0 {
		p.Soft = []bool{r.IntN(2) == 0}
	}
	if r.IntN(2) == 0 {
		for range groups {
			p.Conflicts = append(p.Conflicts, NewSet(groups))
		}
		p.Conflicts[0].Add(1)
		p.Conflicts[1].Add(0)
	}
	for range items {
		it := Item{Class: r.IntN(classes), Group: r.IntN(groups), Count: r.IntN(each + 1)}
		for d := range p.Dims {
			it.Size[d] = int64(r.IntN(40))
		}
		if r.IntN(5) == 0 {
			it.Slots = []int{r.IntN(2)}
		}
		p.Items = append(p.Items, it)
	}
	for range 1 + r.IntN(3) {
		p.Pools = append(p.Pools, Pool{Count: 1 << 40})
	}
	if r.IntN(3) == 0 {
		p.Pools[0] = Pool{Count: r.IntN(20), Left: []int64{int64(r.IntN(3000))}}
	}
	for range 1 + r.IntN(9) {
		b := Bin{Open: NewSet(classes), Pool: r.IntN(len(p.Pools)), Charge: make([]int64, 1)}
		for d := range p.Dims {
			b.Size[d] = int64(20 + r.IntN(200))
			b.Price += b.Size[d]
		}
		b.Charge[0] = b.Size[0]
		if b.Price += int64(r.IntN(50)); len(p.Pools[b.Pool].Left) == 0 {
			b.Charge = nil
		}
		for c := range classes {
			if r.IntN(4) > 0 {
				b.Open.Add(c)
			}
		}
		p.Bins = append(p.Bins, b)
	}
	if r.IntN(2) == 0 {
		p.relax()
	}
	return p
}

// relax gives each item a relaxed variant that fits every bin's class.
func (p *Problem) relax() {
	for k := range p.Bins {
		p.Bins[k].Open = append(slices.Clone(p.Bins[k].Open), 1) // class 64
	}
	for i := range p.Items {
		x := p.Items[i]
		x.Class, p.Items[i].Relaxed = 64, len(p.Relaxed)
		p.Relaxed = append(p.Relaxed, x)
	}
}

func TestSolutionsKeepEveryRule(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := some(r, 1+r.IntN(14), 1+r.IntN(60))
		s := Solve(p, Options{Steps: 300_000, Spill: seed%3 == 0})
		judge(t, p, s)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// Without limits, only items that no bin can hold are left.
func TestNothingIsLeftWithoutLimits(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 2))
		p := some(r, 1+r.IntN(14), 1+r.IntN(60))
		for i := range p.Pools {
			p.Pools[i] = Pool{Count: 1 << 40, Left: []int64{1 << 60}}
		}
		packable := p.normalized().packable()
		s := Solve(p, Options{})
		for i, n := range s.Left {
			if n != p.Items[i].Count-packable[i] {
				t.Fatalf("seed %d: %d left of item %d, %d of %d can be held", seed, n, i, packable[i], p.Items[i].Count)
			}
		}
	}
}

func TestManyItemsAreSolvedByCells(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	for range 3 {
		p := some(r, 400, 50)
		judge(t, p, Solve(p, Options{Steps: 3_000_000}))
	}
}

func TestEqualProblemsHaveEqualSolutions(t *testing.T) {
	for seed := range uint64(20) {
		make := func() *Problem { return some(rand.New(rand.NewPCG(seed, 4)), 12, 40) }
		a, b := Solve(make(), Options{}), Solve(make(), Options{})
		same := a.Cost == b.Cost && a.Bound == b.Bound && a.Steps == b.Steps && slices.Equal(a.Left, b.Left) &&
			slices.EqualFunc(a.Patterns, b.Patterns, func(x, y Pattern) bool {
				return x.Bin == y.Bin && x.Times == y.Times && slices.Equal(x.Items, y.Items)
			})
		if !same {
			t.Fatalf("seed %d: %v, then %v", seed, a, b)
		}
	}
}

func TestSolveKeepsItsProblem(t *testing.T) {
	make := func() *Problem { return some(rand.New(rand.NewPCG(7, 5)), 12, 40) }
	p, q := make(), make()
	Solve(p, Options{})
	for i := range p.Items {
		is, was := &p.Items[i], &q.Items[i]
		if is.Size != was.Size || is.Count != was.Count || is.Relaxed != was.Relaxed {
			t.Errorf("item %d was %v, is %v", i, was, is)
		}
	}
	for k := range p.Bins {
		is, was := &p.Bins[k], &q.Bins[k]
		if is.Size != was.Size || is.Price != was.Price || !slices.Equal(is.Open, was.Open) {
			t.Errorf("bin %d was %v, is %v", k, was, is)
		}
	}
}
