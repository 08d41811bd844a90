package rules

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// Option is one alternative of a pod's node affinity (Required and one term of AnyOf) together with what it leaves of
// a pool.
type Option struct {
	Wants  model.Requirements // of the pod, for this alternative
	Custom model.Requirements // pool and pod, on labels that neither type nor offering decides alone
	Types  Bits
	OfferSet
}

// Alternatives returns the conjunctions, at least one of which must hold.
func Alternatives(required model.Requirements, anyOf []model.Requirements) []model.Requirements {
	if len(anyOf) == 0 {
		return []model.Requirements{required}
	}
	out := make([]model.Requirements, len(anyOf))
	for i, term := range anyOf {
		out[i] = required.And(term)
	}
	return out
}

// Options returns the alternatives that leave a type with an offering, available now or not, in order.
func (v *View) Options(required model.Requirements, anyOf []model.Requirements) []Option {
	var out []Option
	for _, wants := range Alternatives(required, anyOf) {
		if o, key := v.option(wants); key == "" && !o.Types.Empty() {
			out = append(out, o)
		}
	}
	return out
}

// option returns what the requirements leave of the pool, and the first custom or offering label that the pool cannot
// provide, if any.
func (v *View) option(wants model.Requirements) (Option, string) {
	o := Option{Wants: wants}
	for _, w := range wants { // what the pool alone decides, before anything is allocated
		if !v.mayAllow(w) {
			return o, w.Key
		}
	}
	o.Types, o.OfferSet = NewBits(len(v.Pool.Types)), v.AllOffers()
	var ofTypes model.Requirements
	for _, w := range wants {
		switch {
		case w.Key == model.LabelZone:
			narrow(o.Zones, v.Zones, w)
		case w.Key == model.LabelCapacityType:
			narrow(o.Capacity, v.Capacities, w)
		case w.Key == model.NodeNameField:
			o.Wants = wants.Without(w.Key)
		case v.OfTypes(w.Key):
			ofTypes = append(ofTypes, w)
			if chosenAtLaunch(v, w.Key) {
				o.Custom = append(o.Custom, ofPool(v, w))
			}
		default:
			if have, ok := v.Requirements.Get(w.Key); ok {
				o.Custom = append(o.Custom, have.And(w))
			}
		}
	}
	for t := range v.Pool.Types {
		if v.Eligible.Has(t) && v.allowsAll(t, ofTypes) && v.offers(t, &o) {
			o.Types.Set(t)
		}
	}
	return o, ""
}

// ofPool returns a requirement together with that of the pool for the same label, if it has one.
func ofPool(v *View, w model.Requirement) model.Requirement {
	if have, ok := v.Requirements.Get(w.Key); ok {
		return have.And(w)
	}
	return w
}

// chosenAtLaunch reports whether types leave the label's value to the launch, as that of an instance's tenancy. Pods
// that require different values cannot share a node.
func chosenAtLaunch(v *View, key string) bool {
	several, ok := v.several[key]
	if !ok {
		several = slices.ContainsFunc(v.Pool.Types, func(t model.InstanceType) bool {
			r, has := t.Requirements.Get(key)
			return has && (r.Complement || len(r.Values) > 1)
		})
		v.several[key] = several
	}
	return several
}

// mayAllow reports whether the pool may provide the label, before its types and other requirements are considered.
func (v *View) mayAllow(w model.Requirement) bool {
	switch {
	case w.Key == model.LabelZone:
		return slices.ContainsFunc(v.Zones, w.Has)
	case w.Key == model.LabelCapacityType:
		return slices.ContainsFunc(v.Capacities, w.Has)
	case w.Key == model.NodeNameField:
		return anyName(w)
	case v.OfTypes(w.Key):
		return true
	}
	have, ok := v.Requirements.Get(w.Key)
	return ok && have.Overlaps(w) || !ok && w.AllowsAbsence()
}

func (v *View) allowsAll(t int, wants model.Requirements) bool {
	return !slices.ContainsFunc(wants, func(w model.Requirement) bool { return !v.TypeAllows(t, w) })
}

func (v *View) offers(t int, o *Option) bool {
	return slices.ContainsFunc(v.Offers[t], func(f Offer) bool { return o.Has(&f) })
}

func narrow(allowed Bits, values []string, w model.Requirement) {
	for i, value := range values {
		if !w.Has(value) {
			allowed.Remove(i)
		}
	}
}

// AllOffers returns the set of all offerings.
func (v *View) AllOffers() OfferSet {
	return OfferSet{FullBits(len(v.Zones)), FullBits(len(v.Capacities))}
}

// Compatible reports whether the labels chosen so far for a node can still satisfy a joining pod.
func Compatible(chosen, joining model.Requirements) bool {
	for _, j := range joining {
		if c, ok := chosen.Get(j.Key); ok && !c.Overlaps(j) {
			return false
		}
	}
	return true
}

// Score returns the weight of the preferences that the labels satisfy. A preference never excludes a node.
func Score(preferred []model.Preference, labels model.Requirements) int64 {
	var score int64
	for _, p := range preferred {
		if labels.Conflict(p.Terms, nil) == "" {
			score += int64(p.Weight)
		}
	}
	return score
}

// LabelsOf returns the labels that a node of the type gets in the pool with an offering.
func (v *View) LabelsOf(t int, o Offer) model.Requirements {
	rs := v.Requirements.And(v.Pool.Types[t].Requirements)
	return rs.And(model.Requirements{
		model.OneOf(model.LabelCapacityType, v.Capacities[o.Capacity]),
		model.OneOf(model.LabelInstanceType, v.Pool.Types[t].Name),
		model.OneOf(model.LabelZone, v.Zones[o.Zone]),
	})
}
