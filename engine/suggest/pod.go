package suggest

import (
	"slices"
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
		shape.Original = nil // the change is of what the pod requires
		shape.Tolerations = append(slices.Clone(shape.Tolerations), model.Toleration{
			Key: taint.Key, Value: taint.Value,
			Effect: taint.Effect,
		})
		if c.fits(&shape, v, c.rooms[i], false) {
			return model.Change{Rule: model.RuleTaint, Object: rules.TaintText(taint), Pool: v.Pool.Name, To: "tolerated"}
		}
	}
	return model.Change{}
}

// requestLess lowers the request that has to shrink least, to the most that a node has next to its daemons.
func (c *search) requestLess() model.Change {
	var best model.Change
	var kept float64
	for r, asked := range c.shape.Requests {
		if asked <= 0 || r == model.Pods {
			continue
		}
		name := model.ResourceName(c.s.ResourceNames, r)
		for i, v := range c.views {
			shape := *c.shape
			shape.Requests[r] = 0
			var most int64
			for _, m := range c.candidates(&shape, v, c.rooms[i]) {
				most = max(most, v.Net[m.t][r])
			}
			most = roundDown(name, most)
			if share := float64(most) / float64(asked); most <= 0 || most >= asked || share <= kept {
				continue
			}
			shape.Requests[r] = most
			if c.fits(&shape, v, c.rooms[i], false) {
				kept = float64(most) / float64(asked)
				best = model.Change{
					Rule: model.RuleResource, Object: name, Pool: v.Pool.Name,
					From: model.Quantity(name, asked), To: model.Quantity(name, most),
				}
			}
		}
	}
	return best
}

// preferTerm turns one constraint on other pods into a preference: the one that the reason names, or the only one.
func (c *search) preferTerm() model.Change {
	try := func(all int, topology, from, to string, drop func(*model.Shape)) model.Change {
		shape := *c.shape
		if drop(&shape); topology != c.reason.Object && all > 1 {
			return model.Change{}
		}
		pool := c.fitsSomewhere(&shape, true)
		if pool == "" {
			return model.Change{}
		}
		return model.Change{Rule: c.reason.Rule, Object: topology, Pool: pool, From: from, To: to}
	}
	without := func(terms []model.PodTerm, i int) []model.PodTerm { return slices.Concat(terms[:i], terms[i+1:]) }
	var found model.Change
	switch s := c.shape; c.reason.Rule {
	case model.RuleAffinity:
		for i := 0; i < len(s.Affinity) && found.Pool == ""; i++ {
			found = try(len(s.Affinity), s.Affinity[i].Topology, "required", "preferred",
				func(s *model.Shape) { s.Affinity = without(s.Affinity, i) })
		}
	case model.RuleAntiAffinity:
		for i := 0; i < len(s.AntiAffinity) && found.Pool == ""; i++ {
			found = try(len(s.AntiAffinity), s.AntiAffinity[i].Topology, "required", "preferred",
				func(s *model.Shape) { s.AntiAffinity = without(s.AntiAffinity, i) })
		}
	case model.RuleSpread:
		for i := 0; i < len(s.Spread) && found.Pool == ""; i++ {
			if !s.Spread[i].Hard {
				continue
			}
			found = try(len(s.Spread), s.Spread[i].Topology, "DoNotSchedule", "ScheduleAnyway", func(s *model.Shape) {
				s.Spread = slices.Clone(s.Spread)
				s.Spread[i].Hard = false
			})
		}
	}
	return found
}

// unblock creates the object without which no node can take the pod, if nothing else is missing.
func (c *search) unblock() model.Change {
	blocked := c.shape.Blocked
	if blocked == "" {
		blocked = c.reason.Detail
	}
	object, missing := strings.CutSuffix(strings.TrimSuffix(blocked, ": create it"), " does not exist")
	if _, class, asks := strings.Cut(object, " asks for "); asks {
		object = strings.TrimSuffix(class, ", which")
	}
	shape := *c.shape
	shape.Blocked = ""
	if pool := c.fitsSomewhere(&shape, false); missing && pool != "" {
		return model.Change{Rule: model.RuleBlocked, Object: object, Pool: pool, To: "created"}
	}
	return model.Change{}
}
