package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Operator relates a label key to values, as in Kubernetes node selectors plus Gte and Lte of karpenter.sh/v1.
type Operator string

// The operators of karpenter.sh/v1 requirements.
const (
	In           Operator = "In"
	NotIn        Operator = "NotIn"
	Exists       Operator = "Exists"
	DoesNotExist Operator = "DoesNotExist"
	Gt           Operator = "Gt"
	Lt           Operator = "Lt"
	Gte          Operator = "Gte"
	Lte          Operator = "Lte"
)

// Requirement is the set of values a label may take: either the listed values, or (Complement) every value but the
// listed ones; Gte and Lte bound it as an integer. The empty, not complemented set is DoesNotExist.
// Representation as in karpenter.sh/v1 (reference karpenter.md §2).
type Requirement struct {
	Key        string
	Complement bool
	Values     []string // sorted, without duplicates
	Gte, Lte   *int64
	MinValues  int // at least so many distinct values must remain among the candidate types; 0 = no such rule
	// Present says that the label must be there although the rest would allow its absence: of "Exists and NotIn", and of
	// contradictions such as "In [a] and NotIn [a]", which nothing satisfies.
	Present bool
}

// NewRequirement builds a requirement; it fails on an operator it does not know and on bounds that are not one
// integer.
func NewRequirement(key string, op Operator, values ...string) (Requirement, error) {
	r := Requirement{Key: key}
	switch op {
	case In:
		r.Values = sortedSet(values)
	case NotIn:
		r.Complement, r.Values = true, sortedSet(values)
	case Exists:
		r.Complement = true
	case DoesNotExist:
	case Gt, Lt, Gte, Lte:
		if len(values) != 1 {
			return r, fmt.Errorf("requirement %s %s: needs exactly one integer, got %d values", key, op, len(values))
		}
		n, err := strconv.ParseInt(values[0], 10, 64)
		if err != nil {
			return r, fmt.Errorf("requirement %s %s %q: not an integer", key, op, values[0])
		}
		return bounded(r, op, n), nil
	default:
		return r, fmt.Errorf("requirement %s: unknown operator %q", key, op)
	}
	return r, nil
}

// bounded turns an integer comparison into inclusive bounds; nothing satisfies a strict bound beyond the integers.
func bounded(r Requirement, op Operator, n int64) Requirement {
	switch op {
	case Gt:
		if n == math.MaxInt64 {
			r.Present = true
			return r
		}
		n++
		r.Gte = &n
	case Lt:
		if n == math.MinInt64 {
			r.Present = true
			return r
		}
		n--
		r.Lte = &n
	case Gte:
		r.Gte = &n
	case Lte:
		r.Lte = &n
	}
	r.Complement = true
	return r
}

// OneOf is the requirement key In values.
func OneOf(key string, values ...string) Requirement {
	return Requirement{Key: key, Values: sortedSet(values)}
}

func sortedSet(values []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(values)))
}

// Has reports whether the label may have this value.
func (r Requirement) Has(value string) bool {
	_, listed := slices.BinarySearch(r.Values, value)
	return listed != r.Complement && r.within(value)
}

func (r Requirement) within(value string) bool {
	if r.Gte == nil && r.Lte == nil {
		return true
	}
	n, err := strconv.ParseInt(value, 10, 64)
	return err == nil && (r.Gte == nil || n >= *r.Gte) && (r.Lte == nil || n <= *r.Lte)
}

// IsDoesNotExist reports whether no value is left: the label must be absent.
func (r Requirement) IsDoesNotExist() bool { return !r.Complement && len(r.Values) == 0 && !r.Present }

// Impossible reports whether neither a value nor the label's absence satisfies r.
func (r Requirement) Impossible() bool { return !r.Complement && len(r.Values) == 0 && r.Present }

// AllowsAbsence reports whether a node without the label satisfies r.
func (r Requirement) AllowsAbsence() bool {
	return r.IsDoesNotExist() || (r.Complement && len(r.Values) > 0 && r.Gte == nil && r.Lte == nil && !r.Present)
}

// And is the intersection of two requirements on the same key.
func (r Requirement) And(o Requirement) Requirement {
	out := r.intersect(o)
	if out.AllowsAbsence() && (!r.AllowsAbsence() || !o.AllowsAbsence()) {
		out.Present = true
	}
	return out
}

func (r Requirement) intersect(o Requirement) Requirement {
	out := Requirement{Key: r.Key, MinValues: max(r.MinValues, o.MinValues)}
	out.Gte, out.Lte = tighter(r.Gte, o.Gte, 1), tighter(r.Lte, o.Lte, -1)
	if out.Gte != nil && out.Lte != nil && *out.Gte > *out.Lte {
		out.Gte, out.Lte = nil, nil
		return out
	}
	switch {
	case r.Complement && o.Complement:
		out.Complement = true
		out.Values = sortedSet(slices.Concat(r.Values, o.Values))
		return out
	case r.Complement:
		r, o = o, r
	}
	for _, v := range r.Values {
		if o.Has(v) && out.within(v) {
			out.Values = append(out.Values, v)
		}
	}
	out.Gte, out.Lte = nil, nil
	return out
}

// Overlaps reports whether some value, or the label's absence, satisfies both.
func (r Requirement) Overlaps(o Requirement) bool {
	if r.AllowsAbsence() && o.AllowsAbsence() {
		return true
	}
	if r.Complement {
		r, o = o, r
	}
	if r.Complement {
		both := r.intersect(o)
		return both.Complement || len(both.Values) > 0
	}
	for _, v := range r.Values {
		if r.within(v) && o.Has(v) {
			return true
		}
	}
	return false
}

// SubsetOf reports whether whatever satisfies r satisfies o too: a label of which only r is known is sure to satisfy o.
func (r Requirement) SubsetOf(o Requirement) bool {
	if r.AllowsAbsence() && !o.AllowsAbsence() {
		return false
	}
	if !r.Complement {
		for _, v := range r.Values {
			if r.within(v) && !o.Has(v) {
				return false
			}
		}
		return true
	}
	if !o.Complement || tighter(r.Gte, o.Gte, 1) != r.Gte && !sameBound(r.Gte, o.Gte) ||
		tighter(r.Lte, o.Lte, -1) != r.Lte && !sameBound(r.Lte, o.Lte) {
		return false
	}
	for _, v := range o.Values {
		if r.Has(v) {
			return false
		}
	}
	return true
}

func sameBound(a, b *int64) bool { return a != nil && b != nil && *a == *b }

// tighter is the stricter of two optional bounds: the larger for sign 1, the smaller for sign -1.
func tighter(a, b *int64, sign int64) *int64 {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case sign > 0 && *a >= *b, sign < 0 && *a <= *b:
		return a
	}
	return b
}

// String is the requirement as a person writes it, such as "kubernetes.io/arch In [amd64 arm64]".
func (r Requirement) String() string {
	var bounds []string
	if r.Gte != nil {
		bounds = append(bounds, fmt.Sprintf(">= %d", *r.Gte))
	}
	if r.Lte != nil {
		bounds = append(bounds, fmt.Sprintf("<= %d", *r.Lte))
	}
	set := "Exists"
	switch {
	case r.Impossible():
		set = "In []"
	case r.Complement && r.Present:
		set = "Exists and NotIn [" + listed(r.Values) + "]"
	case r.IsDoesNotExist():
		set = "DoesNotExist"
	case r.Complement && len(r.Values) > 0:
		set = "NotIn [" + listed(r.Values) + "]"
	case !r.Complement:
		set = "In [" + listed(r.Values) + "]"
	case len(bounds) > 0:
		set = ""
	}
	return strings.Join(strings.Fields(r.Key+" "+set+" "+strings.Join(bounds, " and ")), " ")
}

// listed are values in a row. The empty value is seen: In [""] is not In [].
func listed(values []string) string {
	if !slices.Contains(values, "") {
		return strings.Join(values, " ")
	}
	out := slices.Clone(values)
	for i := range out {
		if out[i] == "" {
			out[i] = `""`
		}
	}
	return strings.Join(out, " ")
}

// Requirements are requirements on distinct keys that must all hold, sorted by key.
type Requirements []Requirement

// NewRequirements sorts by key and intersects requirements on the same key.
func NewRequirements(rs ...Requirement) Requirements {
	sorted := slices.SortedStableFunc(slices.Values(rs), func(a, b Requirement) int { return cmp.Compare(a.Key, b.Key) })
	out := make(Requirements, 0, len(sorted))
	for _, r := range sorted {
		if n := len(out); n > 0 && out[n-1].Key == r.Key {
			out[n-1] = out[n-1].And(r)
			continue
		}
		out = append(out, r)
	}
	return out
}

// Get is the requirement on key, and whether there is one.
func (rs Requirements) Get(key string) (Requirement, bool) {
	i, ok := slices.BinarySearchFunc(rs, key, func(r Requirement, k string) int { return cmp.Compare(r.Key, k) })
	if !ok {
		return Requirement{}, false
	}
	return rs[i], true
}

// And is the intersection of both, key by key.
func (rs Requirements) And(o Requirements) Requirements {
	if len(o) == 0 {
		return rs
	}
	return NewRequirements(slices.Concat(rs, o)...)
}

// Conflict is the first key on which have (what a pool, type or node offers) cannot satisfy want, or "" if there is
// none. A key that have does not mention is unmet, unless want allows the label to be absent or open(key) says that
// the key may still get any value (a well-known label that a type or offering decides).
func (rs Requirements) Conflict(want Requirements, open func(key string) bool) string {
	for _, w := range want {
		h, ok := rs.Get(w.Key)
		switch {
		case !ok && (w.AllowsAbsence() || (open != nil && open(w.Key))):
		case !ok:
			return w.Key
		case !h.Overlaps(w):
			return w.Key
		}
	}
	return ""
}

// String joins the requirements with commas.
func (rs Requirements) String() string {
	parts := make([]string, len(rs))
	for i, r := range rs {
		parts[i] = r.String()
	}
	return strings.Join(parts, ", ")
}
