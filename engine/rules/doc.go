// Package rules says which machines a pod may run on: one file per constraint. A rule narrows the instance types and
// offerings of a pool, or gives the Reason why nothing is left.
package rules

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
