package methods

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/pack"
)

// mostTogether is the most machines that one command takes.
const mostTogether = 100

// consolidate takes machines whose pods cost less elsewhere: first several at once, then one by one. What it does not come to,
// the next call does that begins After; if drift took all the steps, that is all of it.
func (r *run) consolidate() {
	c := &consolidation{run: r, totals: r.totals()}
	candidates := c.candidates()
	if r.partial || r.left <= 0 && len(candidates) > 0 {
		r.partial = true
		for _, n := range candidates {
			c.stay(n, model.Reason{Rule: model.RuleSteps})
		}
		return
	}
	r.after.Drifted = ""
	if r.policy.After.Underutilized == "" {
		c.together(candidates)
	}
	c.oneByOne(candidates)
}

// consolidation is the state of one call.
type consolidation struct {
	*run
	totals map[string]total
}

// candidates are machines that consolidation may take, those first that save most for what their pods' moves count.
func (c *consolidation) candidates() []*model.Node {
	out := slices.DeleteFunc(c.free(c.run.candidates, false), func(n *model.Node) bool {
		if occupants(n) == 0 {
			return true
		}
		reason := c.unfit(n)
		if reason.Rule != "" {
			c.stay(n, reason)
		}
		return reason.Rule != ""
	})
	ratio := func(n *model.Node) float64 { return float64(n.Price) / float64(movingCost(n)) }
	slices.SortFunc(out, func(a, b *model.Node) int {
		return cmp.Or(cmp.Compare(ratio(b), ratio(a)), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// stay says why a machine stays, unless drift has said why already.
func (c *consolidation) stay(n *model.Node, reason model.Reason) {
	if _, said := c.reasons[n.Name]; !said || n.Drifted == "" {
		c.keep(n, reason)
	}
}

// unfit says why a machine is no candidate.
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
		return model.Reason{Rule: model.RuleTooYoung, Object: p.Name, Detail: left.String()}
	}
	return c.overBudget(n, p.Disruption.AllowedUnderused)
}

// together looks for the longest row of candidates, from the best on, that can go with one machine in their place at most: by
// halves, as Karpenter does. Half of the plans are left for candidates alone.
func (c *consolidation) together(candidates []*model.Node) {
	row := c.withinBudgets(candidates)
	row = row[:min(len(row), mostTogether)]
	var best *proposal
	rest := (c.left + 1) / 2
	for low, high := 2, len(row); low <= high && c.left > rest; {
		middle := (low + high) / 2
		p, reason := c.propose(row[:middle])
		if reason.Rule == "" {
			best, low = p, middle+1
		} else {
			high = middle - 1
		}
	}
	c.left = max(c.left, rest)
	if best != nil {
		c.accept(best)
	}
}

// withinBudgets are the candidates that could all go at once.
func (c *consolidation) withinBudgets(candidates []*model.Node) []*model.Node {
	going := map[string]int{}
	var out []*model.Node
	for _, n := range candidates {
		if !c.world.used[n.Name] && c.gone[n.Pool]+going[n.Pool] < c.pools[n.Pool].Disruption.AllowedUnderused {
			going[n.Pool]++
			out = append(out, n)
		}
	}
	return out
}

// beforeAll is a cursor before every name.
const beforeAll = "-"

// oneByOne tries each candidate alone, the best first. If there are more than it may try, it goes round by name; so does the next
// call if they turn out to be.
func (c *consolidation) oneByOne(candidates []*model.Node) {
	candidates = slices.DeleteFunc(slices.Clone(candidates), func(n *model.Node) bool { return c.taken[n.Name] })
	after := c.policy.After.Underutilized
	round := len(candidates) > c.left || after != ""
	if round {
		slices.SortFunc(candidates, func(a, b *model.Node) int { return cmp.Compare(a.Name, b.Name) })
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
	if c.world.used[n.Name] {
		return model.Reason{Rule: model.RuleNeeded, Detail: "moving"}
	}
	if reason := c.overBudget(n, c.pools[n.Pool].Disruption.AllowedUnderused); reason.Rule != "" {
		return reason
	}
	if reason := c.balanced([]*model.Node{n}, n.Price); reason.Rule != "" {
		return reason // not even if nothing had to take its place
	}
	p, reason := c.propose([]*model.Node{n})
	if reason.Rule == "" {
		c.accept(p)
	}
	return reason
}

// proposal is a command that may be proposed.
type proposal struct {
	victims []*model.Node
	overlay *model.Snapshot
	plan    model.Plan
}

// propose says what would take the place of the machines, or why they stay.
func (c *consolidation) propose(victims []*model.Node) (*proposal, model.Reason) {
	c.left--
	p := &proposal{victims: victims, overlay: c.leaving(destinations{settled: true}, victims)}
	p.plan.Placements = pack.Placements(p.overlay, c.policy)
	price := priceOf(victims)
	if rest := unsettledRequests(p); rest != nil {
		if reason := c.tooDear(victims, rest, price); reason.Rule != "" {
			return nil, reason
		}
		c.left -= launchSteps - 1
		p.plan = pack.ProvisionPods(p.overlay, c.policy)
	}
	if len(p.plan.Launches) > 1 && len(p.plan.Unplaced) == 0 && launchPrice(&p.plan) < price {
		p.plan = c.onOne(p)
	}
	switch {
	case len(p.plan.Unplaced) > 0:
		return nil, noPlace(p.plan.Unplaced[0])
	case len(p.plan.Launches) > 1:
		return nil, model.Reason{Rule: model.RuleMoreMachines, Detail: count(len(p.plan.Launches))}
	case len(p.plan.Launches) == 1:
		if reason := c.cheaper(p); reason.Rule != "" {
			return nil, reason
		}
	}
	return p, c.balanced(victims, price-launchPrice(&p.plan))
}

// onOne plans once more where the cheapest is several machines: pod by pod, which fills one as long as it can grow.
func (c *consolidation) onOne(p *proposal) model.Plan {
	policy := c.policy
	policy.Solver = model.FirstFit
	if plan := pack.ProvisionPods(p.overlay, policy); len(plan.Unplaced) == 0 && len(plan.Launches) < len(p.plan.Launches) {
		return plan
	}
	return p.plan
}

func priceOf(victims []*model.Node) (sum model.Price) {
	for _, n := range victims {
		sum += n.Price
	}
	return sum
}

func launchPrice(plan *model.Plan) (sum model.Price) {
	for i := range plan.Launches {
		sum += plan.Launches[i].Chosen.Price
	}
	return sum
}

func (c *consolidation) accept(p *proposal) {
	c.command(model.Underutilized, p.victims, p.overlay, p.plan)
}
