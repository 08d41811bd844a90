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

// FullBits returns the set of all indices below n.
func FullBits(n int) Bits {
	b := NewBits(n)
	for i := range n {
		b.Set(i)
	}
	return b
}

// Set adds i to the set.
func (b Bits) Set(i int) { b[i/64] |= 1 << (i % 64) }

// Remove removes i from the set.
func (b Bits) Remove(i int) { b[i/64] &^= 1 << (i % 64) }

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

// Next returns the first member from i on, or -1.
func (b Bits) Next(i int) int {
	for w := i / 64; w < len(b); w++ {
		word := b[w]
		if w == i/64 {
			word &= ^uint64(0) << (i % 64)
		}
		if word != 0 {
			return w*64 + bits.TrailingZeros64(word)
		}
	}
	return -1
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

// Keep removes what is not in another set of the same size.
func (b Bits) Keep(o Bits) {
	for i := range b {
		b[i] &= o[i]
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

// OfferSet is a set of offerings: those in some zones and of some capacity types of a View.
type OfferSet struct{ Zones, Capacity Bits }

// Has reports whether the offering is in the set.
func (s *OfferSet) Has(o *Offer) bool { return s.Zones.Has(o.Zone) && s.Capacity.Has(o.Capacity) }
