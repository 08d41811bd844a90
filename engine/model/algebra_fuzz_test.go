package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// worlds are the possible states of a label: absent, one of the values that the requirements below mention, or a
// value that none mentions: any word, and each integer in another spelling.
var worlds = slices.Concat([]string{"absent"}, mentioned, []string{
	"other", "-03", "-02", "-01", "00", "01", "02", "03", "04", "05",
	"09223372036854775807", "-09223372036854775808",
})

var mentioned = []string{
	"", "a", "b", "c", "-3", "-2", "-1", "0", "1", "2", "3", "4", "5", "+1", "1.5",
	"9223372036854775807", "-9223372036854775808", "9223372036854775808",
}

// bounds are the values that the requirements below compare with.
var bounds = []string{"-2", "0", "3", "9223372036854775807", "-9223372036854775808"}

// set is the set of worlds that satisfy a requirement.
type set uint64

func satisfied(by Requirement) (s set) {
	for i, world := range worlds {
		if i == 0 && by.AllowsAbsence() || i > 0 && by.Has(world) {
			s |= 1 << i
		}
	}
	return s
}

// built makes a requirement as a pod's is made, the intersection of several, and returns the worlds that should
// satisfy it.
func built(ops []byte) (Requirement, set) {
	if len(ops) == 0 {
		ops = []byte{2}
	}
	r, want := single(ops[:min(3, len(ops))])
	for ops = ops[min(3, len(ops)):]; len(ops) > 0; ops = ops[min(3, len(ops)):] {
		q, all := single(ops[:min(3, len(ops))])
		r, want = r.And(q), want&all
	}
	return r, want
}

var operators = []Operator{In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte}

// single returns one requirement and the worlds that satisfy it, computed independently.
func single(b []byte) (Requirement, set) {
	op := operators[int(b[0])%len(operators)]
	var values []string
	for _, x := range b[1:] {
		values = append(values, mentioned[int(x)%len(mentioned)])
	}
	if len(values) == 0 { // the API rejects In and NotIn without values
		values = []string{"a"}
	}
	if op == Gt || op == Lt || op == Gte || op == Lte {
		values = []string{bounds[int(b[len(b)-1])%len(bounds)]}
	}
	if op == Exists || op == DoesNotExist {
		values = nil
	}
	r, err := NewRequirement("k", op, values...)
	if err != nil {
		panic(err)
	}
	var s set
	for i, world := range worlds {
		if plainly(op, values, world, i == 0) {
			s |= 1 << i
		}
	}
	return r, s
}

func plainly(op Operator, values []string, world string, absent bool) bool {
	var bound int64
	n, err := strconv.ParseInt(world, 10, 64)
	number := err == nil && !absent
	if len(values) > 0 {
		bound, _ = strconv.ParseInt(values[0], 10, 64)
	}
	switch op {
	case In:
		return !absent && slices.Contains(values, world)
	case NotIn:
		return absent || !slices.Contains(values, world)
	case Exists:
		return !absent
	case DoesNotExist:
		return absent
	case Gt:
		return number && n > bound
	case Lt:
		return number && n < bound
	case Gte:
		return number && n >= bound
	}
	return number && n <= bound
}

// Every operation on requirements must equal the operation on the sets of worlds that satisfy them.
func FuzzRequirementsAreSets(f *testing.F) {
	f.Add([]byte{0, 1, 2}, []byte{1, 1, 1})
	f.Add([]byte{2, 0, 0, 1, 2, 2}, []byte{3})
	f.Add([]byte{2, 0, 0, 3, 0, 0}, []byte{0, 4, 5})
	f.Add([]byte{4, 0, 0, 5, 0, 2}, []byte{6, 0, 1, 1, 9, 9})
	f.Add([]byte{4, 0, 3}, []byte{5, 0, 4})
	f.Add([]byte{1, 1}, []byte{1, 2, 2, 7, 0, 1})
	f.Fuzz(func(t *testing.T, first, second []byte) {
		if len(first) > 12 || len(second) > 12 {
			t.Skip("more is not other")
		}
		a, inA := built(first)
		b, inB := built(second)
		if got := satisfied(a); got != inA {
			t.Fatalf("%s of %v: satisfied by %s, want %s", a, first, named(got), named(inA))
		}
		both := a.And(b)
		if got := satisfied(both); got != inA&inB {
			t.Errorf("%s and %s = %s: satisfied by %s, want %s", a, b, both, named(got), named(inA&inB))
		}
		if a.Overlaps(b) != (inA&inB != 0) || b.Overlaps(a) != (inA&inB != 0) {
			t.Errorf("%s overlaps %s: %v, the other way %v, but they share %s", a, b, a.Overlaps(b), b.Overlaps(a), named(inA&inB))
		}
		if a.SubsetOf(b) && inA&^inB != 0 {
			t.Errorf("%s is no subset of %s, with %s", a, b, named(inA&^inB))
		}
		if a.Impossible() != (inA == 0) {
			t.Errorf("%s is satisfied by %s", a, named(inA))
		}
		if !a.Complement && a.SubsetOf(b) != (inA&^inB == 0) {
			t.Errorf("%s subset of %s: %v, but only the first has %s", a, b, a.SubsetOf(b), named(inA&^inB))
		}
	})
}

func named(s set) string {
	var out []string
	for i, world := range worlds {
		if s&(1<<i) != 0 {
			out = append(out, fmt.Sprintf("%q", world))
		}
	}
	return "{" + strings.Join(out, " ") + "}"
}
