package disrupt

import (
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/solve"
)

// proposal is a command that may be proposed.
type proposal struct {
	victims []*model.Node
	moving  []model.Pod // off them
	plan    model.Plan

	firm  map[model.PodKey]bool // of them, those that have their places on what is launched, whatever is free elsewhere: see firmer
	extra []model.Pod           // there is room on that for these too
}

// without lets f look at the cluster without the proposal's victims, whose pods are then known.
func (c *consolidation) without(p *proposal, f func(*solve.Places)) {
	c.world.open(destinations{settled: true}).without(p.victims, func(places *solve.Places, moving []model.Pod) {
		p.moving = moving
		f(places)
	})
}

// propose says what would take the place of the machines: places on others, and machines, one or several, that cost less
// together. Or why they stay; then a proposal is what was thought of, if there was something.
func (c *consolidation) propose(victims []*model.Node) (*proposal, model.Reason) {
	c.left--
	p := &proposal{victims: victims}
	c.without(p, func(places *solve.Places) { p.plan.Placements = places.Of(p.moving, &c.policy) })
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

// saves says why what the proposal saves is not enough; the zero Reason if it is, of the proposal or of one on fewer machines.
func (c *consolidation) saves(p *proposal) (*proposal, model.Reason) {
	reason := c.cheaper(p)
	if reason.Rule != "" && len(p.plan.Launches) > 1 {
		if q := c.onFewer(p); q != nil && c.cheaper(q).Rule == "" {
			p, reason = q, model.Reason{}
		}
	}
	if reason.Rule != "" {
		return p, reason
	}
	if reason := c.worthIt(p.victims, priceOf(p.victims)-launchPrice(&p.plan)); reason.Rule != "" {
		return nil, reason
	}
	return p, c.paysBack(p)
}

// onFewer plans once more where several machines will not do: pod by pod, which fills one as long as it can grow; nil if that
// needs as many.
func (c *consolidation) onFewer(p *proposal) *proposal {
	policy := c.policy
	policy.Solver = model.FirstFit
	q := &proposal{victims: p.victims, moving: p.moving, plan: p.plan, firm: p.firm, extra: p.extra}
	c.planFor(q, policy)
	if len(q.plan.Unplaced) > 0 || len(q.plan.Launches) >= len(p.plan.Launches) {
		return nil
	}
	return q
}

// unsettled are the pods that have to move and find no place.
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
	c.command(model.Underutilized, p.victims, p.plan)
}
