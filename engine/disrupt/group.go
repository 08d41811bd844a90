package disrupt

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// wait records that nodes would be replaced together with a saving but for a reason. Of several groups the one whose
// reason ends first counts.
func (c *consolidation) wait(row []*model.Node, reason model.Reason) {
	switch reason.Rule {
	case model.RulePayback, model.RuleSmallSaving, model.RuleSpotToSpot, model.RuleBalanced, model.RuleJob:
	default:
		return // nothing cheaper takes the place of these nodes
	}
	if len(row) < 2 {
		return
	}
	for _, n := range row {
		reason.Group = append(reason.Group, n.Name)
	}
	slices.Sort(reason.Group)
	for _, n := range row {
		if was, known := c.groups[n.Name]; !known || sooner(&reason, &was) {
			c.groups[n.Name] = reason
		}
	}
}

// sooner reports whether time ends reason a before it ends b.
func sooner(a, b *model.Reason) bool {
	return !a.Until.IsZero() && (b.Until.IsZero() || a.Until.Before(b.Until))
}

// orGroup returns why a node stays: its own reason or, if nothing cheaper takes its place alone, that of its group.
func (r *run) orGroup(node string, own model.Reason) model.Reason {
	group, known := r.groups[node]
	if !known || slices.ContainsFunc(group.Group, func(name string) bool { return r.taken[name] }) {
		return own
	}
	switch own.Rule {
	case model.RuleNotCheaper, model.RuleMoreNodes, model.RuleNoPlace, model.RuleFragile:
		return group
	case model.RulePayback:
		if sooner(&group, &own) {
			return group
		}
	}
	return own
}
