package model

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Operator relates a label key to values: those of Kubernetes node selectors, and Gte and Lte of karpenter.sh/v1.
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

// Requirement is the set of values that a label may have: the listed values or, with Complement, every value but
// those. Gte and Lte bound it as an integer. The empty set without Complement is DoesNotExist. The representation is
// that of karpenter.sh/v1 (sigs.k8s.io/karpenter/pkg/scheduling/requirement.go).
type Requirement struct {
	Key        string
	Complement bool
	Values     []string // sorted, distinct
	Gte, Lte   *int64
	MinValues  int // minimum number of distinct values among the candidate types; 0 = no minimum
	// Present requires the label to exist although the rest would allow its absence: for "Exists and NotIn", and for
	// contradictions such as "In [a] and NotIn [a]", which nothing satisfies.
	Present bool
}

// NewRequirement returns a requirement. It fails if the operator is unknown or a bound is not exactly one integer.
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

// bounded turns an integer comparison into inclusive bounds. Nothing satisfies a strict bound beyond the range of
// integers.
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

// OneOf returns the requirement key In values.
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

// IsDoesNotExist reports whether no value is allowed: the label must be absent.
func (r Requirement) IsDoesNotExist() bool { return !r.Complement && len(r.Values) == 0 && !r.Present }

// Impossible reports whether neither a value nor the label's absence satisfies r.
func (r Requirement) Impossible() bool { return !r.Complement && len(r.Values) == 0 && r.Present }

// AllowsAbsence reports whether a node without the label satisfies r.
func (r Requirement) AllowsAbsence() bool {
	return r.IsDoesNotExist() || (r.Complement && len(r.Values) > 0 && r.Gte == nil && r.Lte == nil && !r.Present)
}

// String formats the requirement for people, such as "kubernetes.io/arch In [amd64 arm64]".
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

// listed joins values and makes the empty one visible: In [""] is not In [].
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
