package rules

import "github.com/nodeless/nodeless/engine/model"

// SeveralValues returns the first requirement of several values, nil if there is none: a single type cannot meet it.
func SeveralValues(v *View) *model.Requirement {
	for i := range v.MinValues {
		if v.MinValues[i].MinValues > 1 {
			return &v.MinValues[i]
		}
	}
	return nil
}

// ShortOfValues returns the first minValues requirement that the types (by index) do not meet, and how many distinct
// values they have. offers are those that the node may still use.
func (v *View) ShortOfValues(types []int, offers OfferSet) (model.Requirement, int, bool) {
	for _, r := range v.MinValues {
		if n := v.countValues(types, r, offers); n < r.MinValues {
			return r, n, true
		}
	}
	return model.Requirement{}, 0, false
}

// Relaxed returns all minValues that the types do not meet, by key.
func (v *View) Relaxed(types []int, offers OfferSet) []model.Relaxed {
	var out []model.Relaxed
	for _, r := range v.MinValues {
		if n := v.countValues(types, r, offers); n < r.MinValues {
			out = append(out, model.Relaxed{Key: r.Key, From: r.MinValues, To: n})
		}
	}
	return out
}

// Relax lowers minValues in requirements that the caller owns.
func Relax(own []model.Requirement, relaxed []model.Relaxed) {
	for i := range own {
		for _, x := range relaxed {
			if x.Key == own[i].Key {
				own[i].MinValues = x.To
			}
		}
	}
}

func (v *View) countValues(types []int, r model.Requirement, offers OfferSet) int {
	seen := map[string]bool{}
	for _, t := range types {
		for _, value := range v.valuesOf(t, r, offers) {
			seen[value] = true
		}
	}
	return len(seen)
}

// valuesOf returns the values that a type can provide for the key of r and that r allows.
func (v *View) valuesOf(t int, r model.Requirement, offers OfferSet) []string {
	var out []string
	add := func(value string) {
		if r.Has(value) {
			out = append(out, value)
		}
	}
	switch r.Key {
	case model.LabelZone, model.LabelCapacityType:
		for _, o := range v.Offers[t] {
			if !o.Available || !offers.Has(&o) {
				continue
			}
			if r.Key == model.LabelZone {
				add(v.Zones[o.Zone])
			} else {
				add(v.Capacities[o.Capacity])
			}
		}
	default:
		have, ok := TypeLabel(&v.Pool.Types[t], r.Key)
		if ok && !have.Complement {
			for _, value := range have.Values {
				add(value)
			}
		}
	}
	return out
}

// WithMinValues selects at most limit of the types, which are sorted by price, so that minValues hold: first those
// that add a missing value, then the cheapest among the first cheap ones. The order is kept. It reports whether
// minValues hold; if not, the types provide as many values as possible in that order.
func (v *View) WithMinValues(types []int, cheap, limit int, offers OfferSet) ([]int, bool) {
	take := make([]bool, len(types))
	taken := 0
	for _, r := range v.MinValues {
		seen := map[string]bool{}
		for i, t := range types {
			if len(seen) >= r.MinValues {
				break
			}
			fresh := false
			for _, value := range v.valuesOf(t, r, offers) {
				fresh = fresh || !seen[value]
				seen[value] = true
			}
			if fresh && !take[i] && taken < limit {
				take[i] = true
				taken++
			}
		}
	}
	out := make([]int, 0, min(limit, len(types)))
	for i, t := range types {
		if !take[i] && i < cheap && taken < limit {
			take[i] = true
			taken++
		}
		if take[i] {
			out = append(out, t)
		}
	}
	_, _, short := v.ShortOfValues(out, offers)
	return out, !short
}
