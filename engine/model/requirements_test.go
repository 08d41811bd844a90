package model

import (
	"math"
	"reflect"
	"strconv"
	"testing"
)

func req(t testing.TB, key string, op Operator, values ...string) Requirement {
	t.Helper()
	r, err := NewRequirement(key, op, values...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The cases come from the table in sigs.k8s.io/karpenter/pkg/scheduling/requirement.go.
func TestOperatorsAllowValues(t *testing.T) {
	for _, c := range []struct {
		op     Operator
		values []string
		has    string
		hasNot string
		absent bool
	}{
		{In, []string{"b", "a", "b"}, "a b", "c", false},
		{NotIn, []string{"a"}, "b 7", "a", true},
		{Exists, nil, "a 1", "", false},
		{DoesNotExist, nil, "", "a", true},
		{Gt, []string{"4"}, "5 100", "4 -9 x", false},
		{Lt, []string{"4"}, "3 -1", "4 5 x", false},
		{Gte, []string{"4"}, "4 5", "3 4.5", false},
		{Lte, []string{"4"}, "4 0", "5", false},
		{Gt, []string{strconv.Itoa(math.MaxInt64)}, "", "1", false},
		{Lt, []string{strconv.Itoa(math.MinInt64)}, "", "1", false},
	} {
		r := req(t, "k", c.op, c.values...)
		for _, v := range fields(c.has) {
			if !r.Has(v) {
				t.Errorf("%s does not allow %q", r, v)
			}
		}
		for _, v := range fields(c.hasNot) {
			if r.Has(v) {
				t.Errorf("%s allows %q", r, v)
			}
		}
		if r.AllowsAbsence() != c.absent {
			t.Errorf("%s: absence %v, want %v", r, r.AllowsAbsence(), c.absent)
		}
	}
}

func fields(s string) (out []string) {
	word := ""
	for _, c := range s + " " {
		if c != ' ' {
			word += string(c)
		} else if word != "" {
			out, word = append(out, word), ""
		}
	}
	return out
}

func TestMalformedRequirementsAreNamed(t *testing.T) {
	for _, c := range []struct {
		op     Operator
		values []string
	}{{"Near", nil}, {Gt, nil}, {Gt, []string{"1", "2"}}, {Lt, []string{"four"}}} {
		if r, err := NewRequirement("k", c.op, c.values...); err == nil {
			t.Errorf("%s %v is taken as %s", c.op, c.values, r)
		}
	}
}

func TestIntersections(t *testing.T) {
	for _, c := range []struct {
		a, b Requirement
		want string
	}{
		{req(t, "k", In, "a", "b"), req(t, "k", In, "b", "c"), "k In [b]"},
		{req(t, "k", In, "a", "b"), req(t, "k", NotIn, "b"), "k In [a]"},
		{req(t, "k", NotIn, "a"), req(t, "k", NotIn, "b"), "k NotIn [a b]"},
		{req(t, "k", In, "a"), req(t, "k", In, "b"), "k In []"},
		{req(t, "k", In, "a"), req(t, "k", NotIn, "a"), "k In []"},
		{req(t, "k", NotIn, "a"), req(t, "k", DoesNotExist), "k DoesNotExist"},
		{req(t, "k", Exists), req(t, "k", NotIn, "a"), "k Exists and NotIn [a]"},
		{req(t, "k", Exists), req(t, "k", DoesNotExist), "k In []"},
		{req(t, "k", Gt, "1"), req(t, "k", Lt, "9"), "k >= 2 and <= 8"},
		{req(t, "k", Gt, "9"), req(t, "k", Lt, "1"), "k In []"},
		{req(t, "k", In, "1", "5", "x"), req(t, "k", Gte, "2"), "k In [5]"},
		{req(t, "k", NotIn, "5"), req(t, "k", Gte, "2"), "k NotIn [5] >= 2"},
		{req(t, "k", Gte, strconv.Itoa(math.MinInt64)), req(t, "k", Gte, "3"), "k >= 3"},
		{req(t, "k", Lte, strconv.Itoa(math.MinInt64)), req(t, "k", Lte, "3"), "k <= -9223372036854775808"},
	} {
		if got := c.a.And(c.b).String(); got != c.want {
			t.Errorf("%s and %s = %s, want %s", c.a, c.b, got, c.want)
		}
	}
	a, b := OneOf("k", "x"), OneOf("k", "x")
	a.MinValues, b.MinValues = 2, 5
	if got := a.And(b).MinValues; got != 5 {
		t.Errorf("minValues %d, want the larger, 5", got)
	}
}

func TestConflict(t *testing.T) {
	open := func(key string) bool { return key == "zone" }
	have := NewRequirements(OneOf("team", "red"), req(t, "gone", DoesNotExist), req(t, "not", NotIn, "a"))
	for _, c := range []struct {
		want     Requirement
		conflict string
	}{
		{OneOf("team", "red", "blue"), ""},
		{OneOf("team", "blue"), "team"},
		{OneOf("zone", "a"), ""},
		{OneOf("disk", "ssd"), "disk"},
		{req(t, "disk", NotIn, "ssd"), ""},
		{req(t, "disk", DoesNotExist), ""},
		{req(t, "disk", Exists), "disk"},
		{req(t, "gone", NotIn, "x"), ""},
		{req(t, "gone", Exists), "gone"},
		{req(t, "not", In, "a"), "not"},
		{req(t, "not", DoesNotExist), ""},
	} {
		if got := have.Conflict(NewRequirements(c.want), open); got != c.conflict {
			t.Errorf("%s against %s: conflict %q, want %q", c.want, have, got, c.conflict)
		}
	}
}

// universe holds the values that the fuzzed requirements mention and some that they do not.
var universe = []string{"-1", "0", "1", "2", "3", "4", "5", "a", "b", "c", "04", ""}

// random returns a requirement from eight bits of kind and a mask of values.
func random(kind uint8, mask uint16, n int8) Requirement {
	r := Requirement{Key: "k", Complement: kind&1 != 0, MinValues: int(kind >> 6)}
	var values []string
	for i, v := range universe {
		if mask&(1<<i) != 0 {
			values = append(values, v)
		}
	}
	r.Values = sortedSet(values)
	bound := int64(n % 6)
	if kind&1 != 0 && kind&2 != 0 {
		r.Gte = &bound
	}
	if kind&1 != 0 && kind&4 != 0 {
		upper := bound + int64(kind>>3&3)
		r.Lte = &upper
	}
	return r
}

func FuzzRequirementAlgebra(f *testing.F) {
	f.Add(uint8(0), uint16(3), int8(0), uint8(1), uint16(2), int8(1))
	f.Add(uint8(7), uint16(0), int8(2), uint8(15), uint16(512), int8(1))
	f.Add(uint8(3), uint16(9), int8(2), uint8(5), uint16(64), int8(-4))
	f.Fuzz(func(t *testing.T, k1 uint8, m1 uint16, n1 int8, k2 uint8, m2 uint16, n2 int8) {
		a, b := random(k1, m1, n1), random(k2, m2, n2)
		both := a.And(b)
		if other := b.And(a); !reflect.DeepEqual(both, other) {
			t.Errorf("%s and %s: %s one way, %s the other", a, b, both, other)
		}
		if twice := both.And(both); twice.String() != both.String() {
			t.Errorf("%s and itself is %s", both, twice)
		}
		if again := both.And(a); again.String() != both.String() {
			t.Errorf("%s and %s again is %s", both, a, again)
		}
		common, subset := a.AllowsAbsence() && b.AllowsAbsence(), true
		for _, v := range universe {
			if both.Has(v) != (a.Has(v) && b.Has(v)) {
				t.Errorf("%q: %s says %v, %s says %v, together %v", v, a, a.Has(v), b, b.Has(v), both.Has(v))
			}
			common = common || both.Has(v)
			subset = subset && (!a.Has(v) || b.Has(v))
		}
		if common && !a.Overlaps(b) {
			t.Errorf("%s and %s have something in common, but do not overlap", a, b)
		}
		if a.Overlaps(b) != b.Overlaps(a) {
			t.Errorf("%s overlaps %s one way only", a, b)
		}
		if a.SubsetOf(b) && (!subset || a.AllowsAbsence() && !b.AllowsAbsence()) {
			t.Errorf("%s is not a subset of %s", a, b)
		}
		if !a.SubsetOf(a) {
			t.Errorf("%s is not a subset of itself", a)
		}
	})
}

func TestTextsOfDifferentRequirementsDiffer(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range []Requirement{
		{Key: "k"},
		{Key: "k", Present: true},
		{Key: "k", Complement: true},
		{Key: "k", Complement: true, Present: true, Values: []string{"a"}},
		OneOf("k", ""), OneOf("k", "", "a"), OneOf("k", "a"),
		{Key: "k", Complement: true, Values: []string{""}},
		{Key: "k", Complement: true, Values: []string{"a"}},
	} {
		if seen[r.String()] {
			t.Errorf("%#v: %s is the text of another", r, r)
		}
		seen[r.String()] = true
	}
}
