// Package binpack solves variable-sized vector bin packing with costs, on integers: which bins to buy, of many sizes
// and prices, so that all items have room and the bins cost little. An item and a bin have a size in up to MaxDims
// dimensions. Not every bin is open to every item (Bin.Open), some items may not share a bin (Problem.Conflicts), a
// bin holds a limited number of takers of a slot (Problem.Slots), and pools limit what can be bought together
// (Problem.Pools). The package knows neither pods nor instance types: package solve translates.
//
// Solve goes through these stages and stops as soon as the cost is within gapTolerance of the lower bound:
//
//  1. The resource LP (resourcelp.go) treats items as divisible. Its dual gives a lower bound and shadow prices, the
//     value of each item.
//  2. A greedy algorithm (greedy.go) repeatedly buys the bin whose load is worth most for its price. A load is filled
//     by value, by the dot product of size and free room (Panigrahy, Talwar, Uyeda and Wieder, "Heuristics for vector
//     bin packing", 2011), or by value for the share of the scarcest dimension (fill.go).
//  3. The configuration LP (configuration.go) has one column for each way to load a bin. It is solved by column
//     generation (Gilmore and Gomory, "A linear programming approach to the cutting-stock problem", Operations Research
//     9, 1961), with smoothed duals (Wentges, 1997). Farley's bound ("A note on bounding a class of linear programming
//     problems, including cutting stock problems", Operations Research 38, 1990) makes a valid lower bound of the duals
//     of every round. The patterns of its solution are bought, rounded down, and the rest is packed greedily
//     (rounding.go).
//  4. Large neighbourhood search (improve.go; Shaw, 1998) removes the bins that waste most and packs their items anew.
//  5. If cost and bound are still apart, more column generation raises the bound alone (bound.go).
//
// Two aggregations keep the LPs small. Relaxed items are items without some of their constraints, such as their zone:
// the LPs work on these, and disaggregate.go assigns their patterns to items. Cells are items of about the same size
// (cells.go).
//
// Invariants: a Solution keeps every rule of its Problem whatever the LPs say, since all purchases go through search,
// which checks room, conflicts, slots and pools. Bound is at most the cost of every solution that serves as many items:
// each source of it scales its duals until no bin can hold more value than its price. Work is counted in steps, never
// in time, and products are rounded before they are added (float64(a*b)) so that no compiler fuses them: equal problems
// have equal solutions on every computer.
package binpack

// MaxDims is the most dimensions a problem may have.
const MaxDims = 24

// Vector is a size, by dimension.
type Vector [MaxDims]int64

// Item is a number of equal things to be packed.
type Item struct {
	Size    Vector
	Class   int   // decides which bins are open to it: Bin.Open
	Group   int   // conflict group, index into Problem.Conflicts
	Slots   []int // indices into Problem.Slots; each piece takes one of each
	Count   int
	Relaxed int // index into Problem.Relaxed
}

// Bin is a type of bin that can be bought as often as its pool allows.
type Bin struct {
	Size   Vector
	Price  int64 // at least 0, at most 2^41
	Open   Set   // classes of items it may hold
	Pool   int   // index into Problem.Pools
	Charge []int64
}

// Pool limits what can be bought together.
type Pool struct {
	Left  []int64 // of each limited quantity, as in Bin.Charge; it does not limit bins that charge none
	Count int     // bins
}

// Problem is the input of Solve.
type Problem struct {
	Dims  int
	Items []Item
	// Relaxed are the items with fewer constraints, such as without their zones: a lower bound on their cost is a lower
	// bound on the items' cost. nil = the items themselves.
	Relaxed   []Item
	Bins      []Bin
	Pools     []Pool
	Slots     []int  // how many takers of each slot one bin may have
	Soft      []bool // by slot: solutions keep it, but the bound must not count on it; nil = none
	Conflicts []Set  // by conflict group: groups that may not be in the same bin; symmetric
}

// ItemCount is a number of pieces of an item.
type ItemCount struct{ Item, N int }

// Pattern is a loaded bin, to be bought Times times.
type Pattern struct {
	Bin   int
	Items []ItemCount // by item
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

// NewSet returns an empty set for integers below n.
func NewSet(n int) Set { return make(Set, (n+63)/64) }

// Add puts i into the set.
func (s Set) Add(i int) { s[i>>6] |= 1 << (i & 63) }

// Has reports whether i is in the set.
func (s Set) Has(i int) bool { return i>>6 < len(s) && s[i>>6]&(1<<(i&63)) != 0 }

// Covers reports whether o is a subset of s.
func (s Set) Covers(o Set) bool {
	for w, word := range o {
		if word&^s.word(w) != 0 {
			return false
		}
	}
	return true
}

// intersects reports whether s and o have a member in common.
func (s Set) intersects(o Set) bool {
	for w, word := range o {
		if s.word(w)&word != 0 {
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

// fits returns how many more of size fit into free, at most limit.
func fits(dims int, size, free *Vector, limit int) int {
	for d := range dims {
		if size[d] > 0 && size[d] > free[d] {
			return 0
		}
	}
	if limit <= 1 {
		return limit
	}
	n := int64(limit)
	for d := range dims {
		if size[d] > 0 {
			n = min(n, free[d]/size[d])
		}
	}
	return int(n)
}
