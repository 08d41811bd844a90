// Package rules says which nodes a pod may run on: one file per constraint. A rule narrows the instance types and
// offerings of a pool, or gives the Reason why nothing is left.
package rules

import (
	"iter"
	"math/bits"
)

// Bits is a set of small integers, such as indices of instance types.
type Bits []uint64

// NewBits is an empty set for indices below n.
func NewBits(n int) Bits { return make(Bits, (n+63)/64) }

// Set puts i into the set.
func (b Bits) Set(i int) { b[i/64] |= 1 << (i % 64) }

// Has reports whether i is in the set.
func (b Bits) Has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }

// Empty reports whether nothing is in the set.
func (b Bits) Empty() bool {
	for _, w := range b {
		if w != 0 {
			return false
		}
	}
	return true
}

// All are the members in order.
func (b Bits) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range b {
			for ; w != 0; w &= w - 1 {
				if !yield(i*64 + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

// Meets reports whether some member is in both sets, which are of the same size.
func (b Bits) Intersects(o Bits) bool {
	for i, w := range b {
		if w&o[i] != 0 {
			return true
		}
	}
	return false
}

// add puts all members of another set of the same size in.
func (b Bits) add(o Bits) {
	for i, w := range o {
		b[i] |= w
	}
}

// and is the members of both sets, which are of the same size.
func and(a, b Bits) Bits {
	out := make(Bits, len(a))
	for i := range out {
		out[i] = a[i] & b[i]
	}
	return out
}
