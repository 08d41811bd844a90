package disrupt

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

const (
	// mostTogether is the most machines that one command takes.
	mostTogether = 100
	// mostCommands is how many such commands one call looks for.
	mostCommands = 8
	// nearly: a larger command is preferred to a smaller one that saves no more than so much more for its moves.
	nearly = 1.1
)

// together looks for rows of candidates, from the best on, that can go with fewer or cheaper machines in their place. Half of the
// steps are left for candidates alone.
func (c *consolidation) together(candidates []*model.Node) {
	rest := (c.left + 1) / 2
	for range mostCommands {
		row := c.withinBudgets(candidates)
		row = row[:min(len(row), mostTogether)]
		best := c.bestRow(row, rest)
		if best == nil {
			break
		}
		c.acceptParts(best)
	}
	c.left = max(c.left, rest)
}

// acceptParts makes a command of each part of the proposal that stands alone, so that none waits for another.
func (c *consolidation) acceptParts(p *proposal) {
	parts := p.parts()
	if len(parts) == 1 {
		c.accept(p)
		return
	}
	for _, part := range parts {
		if slices.ContainsFunc(part, func(n *model.Node) bool { return c.world.used[n.Name] }) {
			continue // a part before moves pods there, now that this one is not going at the same time
		}
		if q, reason := c.propose(part); reason.Rule == "" {
			c.accept(q)
		}
	}
}

// parts are the machines whose pods share what is launched; those that need nothing are one more.
func (p *proposal) parts() [][]*model.Node {
	from := map[model.PodKey]string{}
	for i := range p.moving {
		from[p.moving[i].PodKey] = p.moving[i].From
	}
	const nothing = ""
	part := map[string]string{} // by machine: another of its part, or itself
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

// bestRow is the proposal that saves most for its moves, of rows of the first candidates by halves; nil if there is none. Where
// the first stand in the way of all, others begin further on.
func (c *consolidation) bestRow(row []*model.Node, rest int) *proposal {
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

// yield is what a proposal saves for each of its moves.
func (c *consolidation) yield(p *proposal) float64 {
	cost := int64(0)
	for _, n := range p.victims {
		cost += movingCost(n)
	}
	return float64(priceOf(p.victims)-launchPrice(&p.plan)) / float64(cost)
}

// mostRepairs is how often a row is tried again without machines that would come back as they are.
const mostRepairs = 3

// withoutIdle proposes for a row; if what is launched is what goes, for the row without those that might as well stay; if it does
// not pay back in time, for the row without those whose pods are too young. It is nil if nothing comes of it.
func (c *consolidation) withoutIdle(row []*model.Node, rest int) *proposal {
	for range mostRepairs {
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
		c.wait(fewer, reason) // the others would come back as they are
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

// changing are the machines without those of which the launches contain the same again for as much.
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

// withinBudgets are the candidates that could all go at once.
func (c *consolidation) withinBudgets(candidates []*model.Node) []*model.Node {
	going := map[string]int{}
	var out []*model.Node
	for _, n := range candidates {
		if !c.taken[n.Name] && !c.world.used[n.Name] && c.gone[n.Pool]+going[n.Pool] < c.pools[n.Pool].Disruption.AllowedUnderused {
			going[n.Pool]++
			out = append(out, n)
		}
	}
	return out
}
