package firstfit

import (
	"math/bits"

	"github.com/nodeless/nodeless/engine/rules"
)

// filled returns the set of all numbers below n.
func filled(n int) rules.Bits {
	b := rules.NewBits(n)
	for i := range n {
		b.Set(i)
	}
	return b
}

// cleared returns an empty set for numbers below n, in the memory of b.
func cleared(b rules.Bits, n int) rules.Bits {
	words := (n + 63) / 64
	if cap(b) < words {
		return make(rules.Bits, words)
	}
	b = b[:words]
	clear(b)
	return b
}

// intersect puts the members of both a and b into the memory of into, and reports whether there are any.
func intersect(into, a, b rules.Bits) (rules.Bits, bool) {
	into = into[:0]
	any := uint64(0)
	for i := range a {
		w := a[i] & b[i]
		any |= w
		into = append(into, w)
	}
	return into, any != 0
}

// next returns the first member from i on, or -1.
func next(b rules.Bits, i int) int {
	w := i / 64
	if w >= len(b) {
		return -1
	}
	if rest := b[w] >> (i % 64); rest != 0 {
		return i + bits.TrailingZeros64(rest)
	}
	for w++; w < len(b); w++ {
		if b[w] != 0 {
			return w*64 + bits.TrailingZeros64(b[w])
		}
	}
	return -1
}

func remove(b rules.Bits, i int) { b[i/64] &^= 1 << (i % 64) }

func fromBools(list []bool) rules.Bits {
	b := rules.NewBits(len(list))
	for i, is := range list {
		if is {
			b.Set(i)
		}
	}
	return b
}

func toBools(b rules.Bits, n int) []bool {
	out := make([]bool, n)
	for i := range b.All() {
		out[i] = true
	}
	return out
}
