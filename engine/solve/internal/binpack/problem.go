// Package binpack buys machines of different sizes and prices for things of many sizes: variable-sized vector bin packing on
// integers. It knows neither pods nor pools; engine/solve translates.
//
// Solve goes in stages. The resource LP gives a lower bound and the value of each item (its shadow price); a greedy takes,
// again and again, the machine whose load is worth most for its price; a neighbourhood search dissolves the machines that
// earn least and packs what was on them anew. Where the bound itself is weak, a configuration LP by column generation
// strengthens it (Gilmore–Gomory; Farley's bound) and its patterns are bought, rounded. Where items are too many for it, items
// of about the same size are one row. Facts and measurements: shared/reference/peers.md §5.
//
// Work is counted in steps, never in time: equal problems have equal solutions on every machine.
package binpack

// MaxDims is the most dimensions a problem may have.
const MaxDims = 24

// Vector is a size, by dimension.
type Vector [MaxDims]int64

// Item is a number of equal things to be packed.
type Item struct {
	Size  Vector
	Class int   // decides which bins are open to it: Bin.Open
	Kind  int   // decides what it may not be together with: Problem.Conflicts
	Slots []int // indices into Problem.Slots of which each of them takes one
	Count int
	Loose int // index into Problem.Loose
}

// Bin is a kind of machine that can be bought as often as its pool allows.
type Bin struct {
	Size   Vector
	Price  int64 // at least 0, at most 2^41
	Open   Set   // classes
	Pool   int   // index into Problem.Pools
	Charge []int64
}

// Pool limits what can be bought together.
type Pool struct {
	Left  []int64 // of each limited quantity, as in Bin.Charge; a bin that charges nothing of it is not held back
	Count int     // bins
}

// Problem is what Solve solves.
type Problem struct {
	Dims  int
	Items []Item
	// Loose are the items with fewer constraints, such as before each was given a zone: what they cost at least, the items cost
	// at least. nil = the items themselves.
	Loose     []Item
	Bins      []Bin
	Pools     []Pool
	Slots     []int  // how many takers of each slot one bin may have
	Soft      []bool // by slot: solutions keep it, but the bound must not count on it; nil = none
	Conflicts []Set  // by kind: kinds that may not be in the same bin; symmetric
}

// Take is how many of an item are in a bin.
type Take struct{ Item, N int }

// Pattern is a loaded bin, bought so many times.
type Pattern struct {
	Bin   int
	Takes []Take // by item
	Times int
}

// Solution is what should be bought.
type Solution struct {
	Patterns []Pattern
	Left     []int // by item: how many have no bin
	Cost     int64
	Bound    int64 // no solution that serves as many is cheaper
	Partial  bool  // the steps were used up
	Steps    int   // used
}

// Set is a set of small integers.
type Set []uint64

// NewSet is an empty set for integers below n.
func NewSet(n int) Set { return make(Set, (n+63)/64) }

// Add puts i into the set.
func (s Set) Add(i int) { s[i>>6] |= 1 << (i & 63) }

// Has reports whether i is in the set.
func (s Set) Has(i int) bool { return i>>6 < len(s) && s[i>>6]&(1<<(i&63)) != 0 }

// Covers reports whether o is a part of s.
func (s Set) Covers(o Set) bool {
	for w, word := range o {
		if word != 0 && (w >= len(s) || word&^s[w] != 0) {
			return false
		}
	}
	return true
}

// meets reports whether both have a member in common.
func (s Set) meets(o Set) bool {
	for w, word := range o {
		if w < len(s) && s[w]&word != 0 {
			return true
		}
	}
	return false
}

func (s Set) word(w int) uint64 {
	if w < len(s) {
		return s[w]
	}
	return 0
}

// fits is how many more of size fit into free, at most most.
func fits(dims int, size, free *Vector, most int) int {
	for d := range dims {
		if size[d] > 0 && size[d] > free[d] {
			return 0
		}
	}
	if most <= 1 {
		return most
	}
	n := int64(most)
	for d := range dims {
		if size[d] > 0 {
			n = min(n, free[d]/size[d])
		}
	}
	return int(n)
}
