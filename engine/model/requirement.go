package model

import (
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
