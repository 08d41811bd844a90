package engine

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

const (
	// maxGroup is the maximum number of nodes in one command.
	maxGroup = 100
	// maxCommands is the maximum number of such commands in one call.
	maxCommands = 8
	// nearly is the factor by which a smaller group's saving per move must exceed a larger group's to be preferred.
	nearly = 1.1
)

// together searches for groups of candidates that fewer or cheaper nodes can replace, the best candidates first. It
// leaves half of the steps for single candidates.
func (c *consolidation) together(candidates []*model.Node) {
	rest := (c.left + 1) / 2
	for range maxCommands {
		row := c.withinBudgets(candidates)
		row = row[:min(len(row), maxGroup)]
		best := c.bestGroup(row, rest)
		if best == nil {
			break
		}
		c.acceptParts(best)
	}
	c.left = max(c.left, rest)
}

// acceptParts makes a command of each independent part of the proposal, so that no part waits for another.
func (c *consolidation) acceptParts(p *proposal) {
	parts := p.parts()
	if len(parts) == 1 {
		c.accept(p)
		return
	}
	for _, part := range parts {
		if slices.ContainsFunc(part, func(n *model.Node) bool { return c.projected.used[n.Name] }) {
			continue // an earlier part now moves pods there, since this node is no longer removed with it
		}
		if q, reason := c.propose(part); reason.Rule == "" {
			c.accept(q)
		}
	}
}

// parts returns the groups of nodes whose pods share a launch; nodes that need no launch form one more group.
func (p *proposal) parts() [][]*model.Node {
	from := map[model.PodKey]string{}
	for i := range p.moving {
		from[p.moving[i].PodKey] = p.moving[i].From
	}
	const nothing = ""
	part := map[string]string{} // by node: another of its part, or itself
	var find func(string) string
	find = func(name string) string {
		if to, ok := part[name]; ok && to != name {
			return find(to)
		}
		return name
	}
	for i := range p.plan.Launches {
		first := nothing
		for _, k := range p.plan.Launches[i].Pods {
			name := from[k]
			if name == nothing {
				continue
			}
			if first == nothing {
				first = find(name)
			}
			part[find(name)] = first
		}
	}
	at := map[string]int{}
	var out [][]*model.Node
	for _, n := range p.victims {
		key := nothing
		if _, ok := part[n.Name]; ok {
			key = find(n.Name)
		}
		if _, ok := at[key]; !ok {
			at[key] = len(out)
			out = append(out, nil)
		}
		out[at[key]] = append(out[at[key]], n)
	}
	return out
}

// bestGroup returns the proposal with the largest saving per move among the first n candidates, for n halved
// repeatedly; nil if there is none. If no group of the first candidates can be replaced, it starts further down.
func (c *consolidation) bestGroup(row []*model.Node, rest int) *proposal {
	for begin := 0; begin+2 <= len(row); begin = 2*begin + 2 {
		var best *proposal
		for n := len(row) - begin; n >= 2 && c.left > rest; n = (n + 1) / 2 {
			p := c.withoutIdle(row[begin:begin+n], rest)
			if p != nil && (best == nil || c.yield(p) > c.yield(best)*nearly) {
				best = p
			}
			if n == 2 {
				break
			}
		}
		if best != nil {
			return best
		}
	}
	return nil
}

// yield returns what a proposal saves per move.
func (c *consolidation) yield(p *proposal) float64 {
	cost := int64(0)
	for _, n := range p.victims {
		cost += movingCost(n)
	}
	return float64(c.priceOf(p.victims)-c.launchPrice(&p.plan)) / float64(cost)
}

// maxRepairs is how often a group is tried again without some of its nodes.
const maxRepairs = 3

// withoutIdle proposes a command for a group. If the launches equal some of the nodes, it tries again without those
// nodes; if the proposal does not pay back in time, without the nodes whose pods are too young. It returns nil if
// that fails.
func (c *consolidation) withoutIdle(row []*model.Node, rest int) *proposal {
	for range maxRepairs {
		if len(row) < 2 || c.left <= rest {
			return nil
		}
		p, reason := c.propose(row)
		if reason.Rule == "" {
			return p
		}
		if p == nil {
			c.wait(row, reason)
			return nil
		}
		fewer := changing(row, p.plan.Launches)
		c.wait(fewer, reason) // the others would be replaced by equal nodes
		if reason.Rule == model.RulePayback {
			need := c.payback(p)
			fewer = slices.DeleteFunc(slices.Clone(row), func(n *model.Node) bool { return c.remaining(n) < need })
		}
		if len(fewer) == len(row) {
			return nil
		}
		row = fewer
	}
	return nil
}

// changing returns the nodes except those that a launch of the same offering would replace.
func changing(row []*model.Node, launches []model.Launch) []*model.Node {
	again := map[model.OfferingKey]int{}
	for i := range launches {
		again[launches[i].Chosen.OfferingKey]++
	}
	return slices.DeleteFunc(slices.Clone(row), func(n *model.Node) bool {
		k := model.OfferingKey{Type: n.Type, Zone: n.Zone, CapacityType: n.CapacityType}
		again[k]--
		return again[k] >= 0
	})
}

// withinBudgets returns the candidates that could all be removed at once.
func (c *consolidation) withinBudgets(candidates []*model.Node) []*model.Node {
	going := map[string]int{}
	var out []*model.Node
	for _, n := range candidates {
		if !c.taken[n.Name] && !c.projected.used[n.Name] &&
			c.gone[n.Pool]+going[n.Pool] < c.pools[n.Pool].Disruption.AllowedUnderused {
			going[n.Pool]++
			out = append(out, n)
		}
	}
	return out
}

// wait records that a group of nodes would be replaced if it were not for the reason. If a node is in several groups,
// the one whose reason ends first counts.
func (c *consolidation) wait(row []*model.Node, reason model.Reason) {
	switch reason.Rule {
	case model.RulePayback, model.RuleSmallSaving, model.RuleSpotToSpot, model.RuleBalanced, model.RuleJob:
	default:
		return // nothing cheaper can replace these nodes
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

// orGroup returns why a node stays: its own reason or, if nothing cheaper replaces it alone, that of its group.
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
