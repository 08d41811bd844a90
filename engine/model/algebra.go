package model

import (
	"slices"
)

// And returns the intersection of two requirements on the same key.
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

// Overlaps reports whether some value, or the absence of the label, satisfies both requirements.
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

// SubsetOf reports whether everything that satisfies r also satisfies o. A label known only to satisfy r then
// certainly satisfies o.
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

// tighter returns the stricter of two optional bounds: the larger if sign is 1, the smaller if sign is -1.
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
