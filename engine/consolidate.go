package engine

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// consolidate removes nodes whose pods cost less elsewhere: first groups of nodes, then single ones. If it runs out
// of steps, the next call continues from After; if drift used up all steps, it does not start at all.
func (r *run) consolidate() {
	c := &consolidation{proposals: &proposals{savings: &savings{run: r, totals: r.poolTotals()}}}
	candidates := c.candidates()
	if r.partial || r.left <= 0 && len(candidates) > 0 {
		r.partial = true
		for _, n := range candidates {
			c.stay(n, model.Reason{Rule: model.RuleSteps})
		}
		return
	}
	r.after.Drifted = ""
	c.sort(candidates)
	if r.policy.After.Underutilized == "" {
		c.together(candidates)
	}
	c.singly(candidates)
}

// consolidation is the state of one call. Its parts: savings judges what a command saves, proposals finds
// replacements, and consolidation itself chooses candidates and groups.
type consolidation struct {
	*proposals
}

// known is what consolidation computed for its candidates before any command was proposed.
type known struct {
	candidates, sorted []*model.Node
	worth              worths
}

// serves reports whether k was computed for these candidates.
func (k *known) serves(candidates []*model.Node, commands int) bool {
	return commands == 0 && len(candidates) > 0 && slices.Equal(candidates, k.candidates)
}

// candidates returns the nodes that consolidation may remove.
func (c *consolidation) candidates() []*model.Node {
	return slices.DeleteFunc(c.free(c.run.candidates, false), func(n *model.Node) bool {
		if !occupied(n) {
			return true
		}
		reason := c.unfit(n)
		if reason.Rule != "" {
			c.stay(n, reason)
		}
		return reason.Rule != ""
	})
}

// sort orders candidates by what they may save relative to the cost of moving their pods, largest first. A node can
// save at most its price less what its pods are worth: see worthsOf.
func (c *consolidation) sort(candidates []*model.Node) {
	if c.known.serves(candidates, len(c.commands)) {
		c.worth = c.known.worth
		copy(candidates, c.known.sorted)
		return
	}
	before := slices.Clone(candidates)
	c.worth = c.worthsOf(candidates)
	sortDescending(candidates, func(n *model.Node) float64 { return c.waste(n) / float64(movingCost(n)) })
	if len(c.commands) == 0 {
		*c.known = known{candidates: before, sorted: slices.Clone(candidates), worth: c.worth}
	}
}

// stay records why a node stays, unless drift did so already.
func (c *consolidation) stay(n *model.Node, reason model.Reason) {
	if _, said := c.reasons[n.Name]; !said || c.cause(n) == "" {
		c.keep(n, reason)
	}
}

// unfit returns why a node is no candidate.
func (c *consolidation) unfit(n *model.Node) model.Reason {
	p := c.pools[n.Pool]
	left := c.untilConsolidation(n, p)
	switch {
	case p.Disruption.Never:
		return model.Reason{Rule: model.RuleNever, Object: p.Name}
	case p.Disruption.WhenEmptyOnly:
		return model.Reason{Rule: model.RuleWhenEmpty, Object: p.Name}
	case n.Price <= 0 || n.Type == "" || n.Zone == "" || n.CapacityType == "":
		return model.Reason{Rule: model.RuleNoPrice}
	case left > 0:
		return model.Reason{Rule: model.RuleTooYoung, Object: p.Name, Detail: left.String(), Until: c.s.Now.Add(left)}
	}
	if reason := c.unsettled(model.Underutilized); reason.Rule != "" {
		return reason
	}
	if reason := c.hopeless(n); reason.Rule != "" {
		return reason
	}
	return c.overBudget(n, p.Disruption.AllowedUnderused)
}

// beforeAll is a cursor before every name.
const beforeAll = "-"

// singly tries each candidate alone, the best first. If there are more than it may try, it tries them by name over
// several calls.
func (c *consolidation) singly(candidates []*model.Node) {
	candidates = slices.DeleteFunc(slices.Clone(candidates), func(n *model.Node) bool { return c.taken[n.Name] })
	after := c.policy.After.Underutilized
	round := len(candidates) > c.left || after != ""
	if round {
		candidates = byName(candidates)
	}
	for _, n := range candidates {
		if round && n.Name <= after {
			c.stay(n, model.Reason{Rule: model.RuleSteps})
			continue
		}
		if c.left <= 0 {
			c.partial = true
			c.after.Underutilized = cmp.Or(c.after.Underutilized, beforeAll)
			c.stay(n, model.Reason{Rule: model.RuleSteps})
			continue
		}
		if round {
			c.after.Underutilized = n.Name
		}
		if reason := c.alone(n); reason.Rule != "" {
			c.stay(n, reason)
		}
	}
	if !c.partial {
		c.after.Underutilized = ""
	}
}

// alone tries one candidate.
func (c *consolidation) alone(n *model.Node) model.Reason {
	if c.projected.used[n.Name] {
		return model.Reason{Rule: model.RuleNeeded, Detail: "moving"}
	}
	if reason := c.overBudget(n, c.pools[n.Pool].Disruption.AllowedUnderused); reason.Rule != "" {
		return reason
	}
	if reason := c.worthIt([]*model.Node{n}, c.effective(n)); reason.Rule != "" {
		return reason // not even without a replacement
	}
	p, reason := c.propose([]*model.Node{n})
	if reason.Rule == "" {
		c.accept(p)
	}
	return reason
}
