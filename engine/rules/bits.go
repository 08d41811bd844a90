// Package rules decides which nodes a pod may run on, one file per constraint, with the semantics of kube-scheduler.
//
// A [View] is a pool: its rules narrow the instance types and offerings that a pod may use, or say why none is left
// ([View.Verdict]). A [State] is a cluster to which pods are being bound one after another: it says whether the next
// pod may be bound to a node. A [Screen] finds the pools that could help a pod at all.
package rules

import (
	"iter"
	"math/bits"
)

// Bits is a set of small integers, such as indices of instance types.
type Bits []uint64

// NewBits returns an empty set for indices below n.
func NewBits(n int) Bits { return make(Bits, (n+63)/64) }

// Set adds i to the set.
func (b Bits) Set(i int) { b[i/64] |= 1 << (i % 64) }

// Has reports whether i is in the set.
func (b Bits) Has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }

// Empty reports whether the set is empty.
func (b Bits) Empty() bool {
	for _, w := range b {
		if w != 0 {
			return false
		}
	}
	return true
}

// All yields the members in order.
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

// Intersects reports whether the sets, which must have the same size, have a common member.
func (b Bits) Intersects(o Bits) bool {
	for i, w := range b {
		if w&o[i] != 0 {
			return true
		}
	}
	return false
}

// add adds all members of another set of the same size.
func (b Bits) add(o Bits) {
	for i, w := range o {
		b[i] |= w
	}
}

// and returns the intersection of sets of the same size.
func and(a, b Bits) Bits {
	out := make(Bits, len(a))
	for i := range out {
		out[i] = a[i] & b[i]
	}
	return out
}
