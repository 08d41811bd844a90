package model

import (
	"cmp"
	"slices"
	"strings"
)

// Requirements are requirements on distinct keys, sorted by key, all of which must hold.
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

// Get returns the requirement on key, and whether there is one.
func (rs Requirements) Get(key string) (Requirement, bool) {
	i, ok := slices.BinarySearchFunc(rs, key, func(r Requirement, k string) int { return cmp.Compare(r.Key, k) })
	if !ok {
		return Requirement{}, false
	}
	return rs[i], true
}

// Without returns the requirements except the one on the key.
func (rs Requirements) Without(key string) Requirements {
	return slices.DeleteFunc(slices.Clone(rs), func(r Requirement) bool { return r.Key == key })
}

// And returns the intersection of both, key by key.
func (rs Requirements) And(o Requirements) Requirements {
	if len(o) == 0 {
		return rs
	}
	return NewRequirements(slices.Concat(rs, o)...)
}

// Conflict returns the first key on which rs, the labels that a pool, type or node offers, cannot satisfy want; "" if
// there is none. A key missing from rs is unmet unless want allows its absence or open(key) reports that the key may
// still get any value (a well-known label that a type or an offering decides).
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
