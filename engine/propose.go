package engine

import (
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/solve"
)

// proposals finds cheaper replacements for nodes.
type proposals struct {
	*savings
	worth worths // of pods, by shape
}

// proposal is a possible command.
type proposal struct {
	victims []*model.Node
	moving  []model.Pod // their pods that need a place
	plan    model.Plan

	firm  map[model.PodKey]bool // pods that must have places on launched nodes: see firmer
	extra []model.Pod           // additional pods for which launches must have room
}

// without calls f with the cluster without the proposal's victims, and records the pods that move.
func (c *proposals) without(p *proposal, f func(*solve.Cluster)) {
	c.projected.open(destinations{settled: true}).without(p.victims, func(places *solve.Cluster, moving []model.Pod) {
		p.moving = moving
		f(places)
	})
}

// propose finds places for the pods of the nodes: on other nodes, and on launched ones that cost less than the
// victims. Otherwise it returns why the nodes stay, and its best proposal, if any.
//
//  1. Place the pods on existing nodes.
//  2. For the remaining pods, check bounds: can any launch for them be cheaper at all?
//  3. Plan with launches, and narrow these to offerings that certainly save enough (saves).
//  4. Check that the plan holds if kube-scheduler places the pods in its own way (firm).
func (c *proposals) propose(victims []*model.Node) (*proposal, model.Reason) {
	c.left--
	p := &proposal{victims: victims}
	c.without(p, func(places *solve.Cluster) { p.plan.Placements = places.Placements(p.moving, &c.policy) })
	if rest := p.unsettled(); len(rest) > 0 {
		if reason := c.tooDear(victims, rest); reason.Rule != "" {
			return nil, reason
		}
		c.left -= launchSteps - 1
		if reason := c.noBargain(victims, rest); reason.Rule != "" {
			return nil, reason
		}
		c.planFor(p, c.policy)
	}
	if len(p.plan.Unplaced) > 0 {
		return nil, noPlace(p.plan.Unplaced[0])
	}
	p, reason := c.saves(p)
	if reason.Rule != "" {
		return p, reason
	}
	return c.firm(p)
}

// saves returns why the proposal saves too little; the zero Reason if it saves enough, possibly after planning it on
// fewer nodes.
func (c *proposals) saves(p *proposal) (*proposal, model.Reason) {
	reason := c.cheaper(p)
	if reason.Rule != "" && len(p.plan.Launches) > 1 {
		if q := c.onFewer(p); q != nil && c.cheaper(q).Rule == "" {
			p, reason = q, model.Reason{}
		}
	}
	if reason.Rule != "" {
		return p, reason
	}
	if reason := c.worthIt(p.victims, c.priceOf(p.victims)-c.launchPrice(&p.plan)); reason.Rule != "" {
		return nil, reason
	}
	return p, c.paysBack(p)
}

// onFewer plans with first fit, which uses fewer and larger nodes; nil if that needs as many launches.
func (c *proposals) onFewer(p *proposal) *proposal {
	policy := c.policy
	policy.Solver = model.FirstFit
	q := &proposal{victims: p.victims, moving: p.moving, plan: p.plan, firm: p.firm, extra: p.extra}
	c.planFor(q, policy)
	if len(q.plan.Unplaced) > 0 || len(q.plan.Launches) >= len(p.plan.Launches) {
		return nil
	}
	return q
}

// unsettled returns the moving pods without a place.
func (p *proposal) unsettled() (out []model.Pod) {
	settled := make(map[model.PodKey]bool, len(p.plan.Placements))
	for i := range p.plan.Placements {
		settled[p.plan.Placements[i].Pod] = true
	}
	for i := range p.moving {
		if !settled[p.moving[i].PodKey] {
			out = append(out, p.moving[i])
		}
	}
	return out
}

// effective returns what the node costs under the policy.
func (r *run) effective(n *model.Node) model.Price { return r.policy.Effective(n.Price) }

// priceOf returns what the nodes cost under the policy.
func (r *run) priceOf(nodes []*model.Node) (sum model.Price) {
	for _, n := range nodes {
		sum += r.effective(n)
	}
	return sum
}

// launchPrice returns what the launches of a plan cost under the policy.
func (r *run) launchPrice(plan *model.Plan) (sum model.Price) {
	for i := range plan.Launches {
		sum += r.policy.Effective(plan.Launches[i].Chosen.Price)
	}
	return sum
}

func (c *consolidation) accept(p *proposal) {
	c.command(model.Underutilized, p.victims, p.plan)
}
