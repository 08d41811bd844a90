package change

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// tolerate adds a toleration.
func (c *search) tolerate() model.Change {
	for i, v := range c.views {
		taint, bad := model.Untolerated(v.Pool.Taints, c.shape.Tolerations)
		if !bad {
			continue
		}
		shape := *c.shape
		shape.Tolerations = append(slices.Clone(shape.Tolerations), model.Toleration{Key: taint.Key, Value: taint.Value, Effect: taint.Effect})
		if c.fits(&shape, v, c.rooms[i], false) {
			return model.Change{Rule: model.RuleTaint, Object: rules.TaintText(taint), Pool: v.Pool.Name, To: "tolerated"}
		}
	}
	return model.Change{}
}

// allowValue lets one label have one more value, or drops what is asked of it if no machine has the label.
func (c *search) allowValue() model.Change {
	if found := c.allowIn(c.shape.Required, func(s *model.Shape, rs model.Requirements) { s.Required = rs }); found != (model.Change{}) {
		return found
	}
	for i, term := range c.shape.AnyOf {
		found := c.allowIn(term, func(s *model.Shape, rs model.Requirements) {
			s.AnyOf = slices.Clone(s.AnyOf)
			s.AnyOf[i] = rs
		})
		if found != (model.Change{}) {
			return found
		}
	}
	return model.Change{}
}

// keyOrder puts labels first that are easy to give up.
func keyOrder(key string) int {
	i := slices.Index([]string{model.LabelZone, model.LabelCapacityType, model.LabelInstanceType}, key)
	if i < 0 {
		return 3
	}
	return i
}

func (c *search) allowIn(rs model.Requirements, set func(*model.Shape, model.Requirements)) model.Change {
	byEase := slices.Clone(rs)
	slices.SortStableFunc(byEase, func(a, b model.Requirement) int { return cmp.Compare(keyOrder(a.Key), keyOrder(b.Key)) })
	for _, r := range byEase {
		for i, v := range c.views {
			shape := *c.shape
			rest := withoutKey(rs, r.Key)
			set(&shape, rest)
			value, ok := nearestValue(v, c.machines(&shape, v, c.rooms[i]), r)
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

// cheapestValue is the value of the label on the cheapest of the machines, "" if they come without the label; ok is false if
// there is no machine.
func cheapestValue(v *rules.View, machines []machine, key string) (value string, ok bool) {
	return nearestValue(v, machines, model.Requirement{Key: key})
}

// nearestValue is the value nearest to the bounds of the requirement, and of those the cheapest.
func nearestValue(v *rules.View, machines []machine, r model.Requirement) (value string, ok bool) {
	var price model.Price
	var far uint64
	for _, m := range machines {
		candidate, _ := valueOf(v, m, r.Key)
		d := distance(candidate, r)
		nearer := cmp.Or(cmp.Compare(d, far), cmp.Compare(m.offer.Price, price), cmp.Compare(candidate, value)) < 0
		if !ok || nearer {
			value, price, far, ok = candidate, m.offer.Price, d, true
		}
	}
	return value, ok
}

// distance is how far a number is from the bounds; what is no number is farthest, without bounds everything is near.
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

func valueOf(v *rules.View, m machine, key string) (string, bool) {
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

// valuesText is what a requirement allows, without its key.
func valuesText(r model.Requirement) string {
	if !r.Complement && len(r.Values) > 0 {
		return strings.Join(r.Values, ", ")
	}
	return strings.TrimSpace(strings.TrimPrefix(r.String(), r.Key))
}

// askLess lowers the request of which the least must go, to the most that a machine has beside its daemons.
func (c *search) askLess() model.Change {
	var best model.Change
	var kept float64
	for r, asked := range c.shape.Requests {
		if asked <= 0 || r == model.Pods {
			continue
		}
		for i, v := range c.views {
			shape := *c.shape
			shape.Requests[r] = 0
			var most int64
			for _, m := range c.machines(&shape, v, c.rooms[i]) {
				most = max(most, v.Net[m.t][r])
			}
			most = roundDown(c.name(r), most)
			if share := float64(most) / float64(asked); most <= 0 || most >= asked || share <= kept {
				continue
			}
			shape.Requests[r] = most
			if c.fits(&shape, v, c.rooms[i], false) {
				kept = float64(most) / float64(asked)
				best = model.Change{
					Rule: model.RuleResource, Object: c.name(r), Pool: v.Pool.Name,
					From: model.Quantity(c.name(r), asked), To: model.Quantity(c.name(r), most),
				}
			}
		}
	}
	return best
}

// preferTerm makes one demand on other pods a preference.
func (c *search) preferTerm() model.Change {
	try := func(object string, drop func(*model.Shape), from, to string) model.Change {
		shape := *c.shape
		drop(&shape)
		pool := c.fitsSomewhere(&shape, true)
		if pool == "" {
			return model.Change{}
		}
		return model.Change{Rule: c.reason.Rule, Object: object, Pool: pool, From: from, To: to}
	}
	without := func(terms []model.PodTerm, i int) []model.PodTerm {
		return slices.Concat(terms[:i], terms[i+1:])
	}
	named := func(topology string, all bool) bool { return topology == c.reason.Object || all }
	switch c.reason.Rule {
	case model.RuleAffinity:
		all := len(c.shape.Affinity) == 1
		for i, t := range c.shape.Affinity {
			if !named(t.Topology, all) {
				continue
			}
			if found := try(t.Topology, func(s *model.Shape) { s.Affinity = without(s.Affinity, i) }, "required", "preferred"); found.Pool != "" {
				return found
			}
		}
	case model.RuleAntiAffinity:
		all := len(c.shape.AntiAffinity) == 1
		for i, t := range c.shape.AntiAffinity {
			if !named(t.Topology, all) {
				continue
			}
			if found := try(t.Topology, func(s *model.Shape) { s.AntiAffinity = without(s.AntiAffinity, i) }, "required", "preferred"); found.Pool != "" {
				return found
			}
		}
	case model.RuleSpread:
		all := len(c.shape.Spread) == 1
		for i, t := range c.shape.Spread {
			if !t.Hard || !named(t.Topology, all) {
				continue
			}
			soft := func(s *model.Shape) {
				s.Spread = slices.Clone(s.Spread)
				s.Spread[i].Hard = false
			}
			if found := try(t.Topology, soft, "DoNotSchedule", "ScheduleAnyway"); found.Pool != "" {
				return found
			}
		}
	}
	return model.Change{}
}

// unblock creates the object without which no machine can take the pod, if that is all that is missing.
func (c *search) unblock() model.Change {
	blocked := c.shape.Blocked
	if blocked == "" {
		blocked = c.reason.Detail
	}
	object, missing := strings.CutSuffix(blocked, " does not exist")
	shape := *c.shape
	shape.Blocked = ""
	if pool := c.fitsSomewhere(&shape, false); missing && pool != "" {
		return model.Change{Rule: model.RuleBlocked, Object: object, Pool: pool, To: "created"}
	}
	return model.Change{}
}

func (c *search) name(resource int) string {
	if resource < len(c.s.ResourceNames) {
		return c.s.ResourceNames[resource]
	}
	return "resource " + model.Quantity("", int64(resource))
}
