package suggest

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
	"github.com/nodeless/nodeless/engine/spelling"
)

// allowValue allows one more value of a label, or drops the requirement if no node has the label.
func (c *search) allowValue() model.Change {
	found := c.allowIn(c.shape.Required, func(s *model.Shape, rs model.Requirements) { s.Required = rs })
	for i := 0; i < len(c.shape.AnyOf) && found == (model.Change{}); i++ {
		found = c.allowIn(c.shape.AnyOf[i], func(s *model.Shape, rs model.Requirements) {
			s.AnyOf = slices.Clone(s.AnyOf)
			s.AnyOf[i] = rs
		})
	}
	return found
}

// keyOrder sorts the labels that are easiest to give up first.
func keyOrder(key string) int {
	i := slices.Index([]string{model.LabelZone, model.LabelCapacityType, model.LabelInstanceType}, key)
	if i < 0 {
		return 3
	}
	return i
}

func (c *search) allowIn(rs model.Requirements, set func(*model.Shape, model.Requirements)) model.Change {
	byEase := slices.Clone(rs)
	slices.SortStableFunc(byEase, func(a, b model.Requirement) int {
		return cmp.Compare(keyOrder(a.Key), keyOrder(b.Key))
	})
	for _, r := range byEase {
		for i, v := range c.views {
			shape := *c.shape
			shape.Original = nil // the change is of what the pod requires
			rest := rs.Without(r.Key)
			set(&shape, rest)
			value, ok := nearestValue(v, c.candidates(&shape, v, c.rooms[i]), r)
			if !ok {
				continue
			}
			if value != "" {
				set(&shape, rest.And(model.Requirements{model.OneOf(r.Key, value)}))
			}
			if c.fits(&shape, v, c.rooms[i], false) {
				return model.Change{Rule: model.RuleRequirement, Object: r.Key, Pool: v.Pool.Name, From: valuesText(r), To: value}
			}
		}
	}
	return model.Change{}
}

// cheapestValue returns the value of the label on the cheapest candidate, "" if it has none; ok is false if there is
// no candidate.
func cheapestValue(v *rules.View, candidates []candidate, key string) (value string, ok bool) {
	return nearestValue(v, candidates, model.Requirement{Key: key})
}

// nearestValue returns the value closest to the bounds of the requirement, or to a misspelled type name, and of those
// the one with the usual architecture, then the cheapest.
func nearestValue(v *rules.View, candidates []candidate, r model.Requirement) (value string, ok bool) {
	var price model.Price
	var far uint64
	var unusual int
	for _, m := range candidates {
		candidate, _ := valueOf(v, m, r.Key)
		d := max(distance(candidate, r), misspelled(v, r, candidate))
		arch := 0 // prefers the architecture that most images have
		if a, known := valueOf(v, m, model.LabelArch); known && a != usualArch {
			arch = 1
		}
		nearer := cmp.Or(cmp.Compare(d, far), cmp.Compare(arch, unusual), cmp.Compare(m.offer.Price, price),
			cmp.Compare(candidate, value)) < 0
		if !ok || nearer {
			value, price, far, unusual, ok = candidate, m.offer.Price, d, arch, true
		}
	}
	return value, ok
}

// distance returns how far a number is outside the bounds. What is not a number is farthest; without bounds
// everything is equally near.
func distance(value string, r model.Requirement) uint64 {
	if r.Gte == nil && r.Lte == nil {
		return 0
	}
	n, err := strconv.ParseInt(value, 10, 64)
	switch {
	case err != nil:
		return math.MaxUint64
	case r.Gte != nil && n < *r.Gte:
		return uint64(*r.Gte) - uint64(n)
	case r.Lte != nil && n > *r.Lte:
		return uint64(n) - uint64(*r.Lte)
	}
	return 0
}

func valueOf(v *rules.View, m candidate, key string) (string, bool) {
	switch key {
	case model.LabelZone:
		return v.Zones[m.offer.Zone], true
	case model.LabelCapacityType:
		return v.Capacities[m.offer.Capacity], true
	}
	r, ok := v.Requirements.Get(key)
	if v.OfTypes(key) {
		r, ok = rules.TypeLabel(&v.Pool.Types[m.t], key)
	}
	if !ok || r.Complement || len(r.Values) == 0 {
		return "", false
	}
	return r.Values[0], true
}

// valuesText formats what a requirement allows, without its key.
func valuesText(r model.Requirement) string {
	if !r.Complement && len(r.Values) > 0 {
		return strings.Join(r.Values, ", ")
	}
	return strings.TrimSpace(strings.TrimPrefix(r.String(), r.Key))
}

// maxTypos is the number of wrong letters up to which a name counts as misspelled.
const maxTypos = 2

// misspelled returns how far a type's name is from the names that a requirement lists, if none of these is a type of
// the view: 0 to maxTypos letters, else MaxUint64. For other labels all values are equally far.
func misspelled(v *rules.View, r model.Requirement, name string) uint64 {
	if r.Key != model.LabelInstanceType || r.Complement || len(r.Values) == 0 {
		return 0
	}
	nearest := math.MaxInt
	for _, asked := range r.Values {
		if slices.ContainsFunc(v.Pool.Types, func(t model.InstanceType) bool { return t.Name == asked }) {
			return 0
		}
		nearest = min(nearest, spelling.EditDistance(asked, name))
	}
	if nearest > maxTypos {
		return math.MaxUint64
	}
	return uint64(nearest)
}
