package disrupt

import (
	"fmt"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/solve"
)

// mostFirmer is how often a proposal that is fragile is planned anew.
const mostFirmer = 6

// firm is the proposal, or one for the same machines that kube-scheduler does not break: where it would, what is launched becomes larger,
// step by step, as long as that still saves enough.
func (c *consolidation) firm(p *proposal) (*proposal, model.Reason) {
	first := p
	reason, wrong := c.fragile(p)
	for range mostFirmer {
		if reason.Rule == "" {
			return p, reason
		}
		q := c.firmer(p, wrong)
		if q == nil || len(q.plan.Unplaced) > 0 {
			break
		}
		q, dear := c.saves(q)
		if dear.Rule != "" {
			break
		}
		p = q
		reason, wrong = c.fragile(p)
	}
	if reason.Rule != "" {
		return first, reason
	}
	return p, reason
}

// firmer plans once more, and counts less on room that is free elsewhere. Pods that kube-scheduler would put on what is launched, and those
// that it would leave without a place, are to have their places there; if they have them already, then all pods; and if all have, then
// there is to be room for as many more as were left. It is nil where pods look at each other, so that nothing but all of them can be planned.
func (c *consolidation) firmer(p *proposal, wrong astray) *proposal {
	q := &proposal{victims: p.victims, moving: p.moving, plan: p.plan, firm: map[model.PodKey]bool{}, extra: slices.Clip(p.extra)}
	for i := range p.plan.Launches {
		for _, k := range p.plan.Launches[i].Pods {
			q.firm[k] = true
		}
	}
	before := len(q.firm)
	for i := range wrong.left {
		q.firm[wrong.left[i].PodKey] = true
	}
	for _, k := range wrong.onLaunched {
		q.firm[k] = true
	}
	look := slices.ContainsFunc(p.moving, func(x model.Pod) bool {
		s := &c.s.Shapes[x.Shape]
		return len(s.Affinity)+len(s.AntiAffinity)+len(s.Spread) > 0
	})
	switch all := len(p.firm) == len(p.moving); {
	case all && look:
		return nil
	case all:
		for _, x := range wrong.left {
			x.PodKey = model.PodKey{Name: fmt.Sprintf("room %d", len(q.extra))} // no pod is without a namespace
			q.extra = append(q.extra, x)
		}
	case look || len(q.firm) == before:
		for i := range p.moving {
			q.firm[p.moving[i].PodKey] = true
		}
	}
	c.left -= launchSteps
	c.planFor(q, c.policy)
	return q
}

// planFor plans for the proposal's pods: for those that are firm on what is launched alone, while the others keep their places.
// A plan of a row of machines that is too dear says which of them might as well stay; of others it is of no use.
func (c *consolidation) planFor(p *proposal, policy model.Policy) {
	below := model.Price(0)
	if len(p.victims) == 1 || len(p.firm) > 0 {
		for _, n := range p.victims {
			below += c.effective(n)
		}
	}
	if len(p.firm) == 0 {
		c.without(p, func(places *solve.Places) { p.plan = places.WhatIf(p.moving, policy, below) })
		return
	}
	kept := slices.DeleteFunc(slices.Clone(p.plan.Placements), func(x model.Placement) bool { return p.firm[x.Pod] })
	pods := slices.DeleteFunc(slices.Clone(p.moving), func(x model.Pod) bool { return !p.firm[x.PodKey] })
	c.world.open(destinations{nowhere: true}).without(p.victims, func(places *solve.Places, _ []model.Pod) {
		p.plan = places.WhatIf(append(pods, p.extra...), policy, below)
	})
	p.plan.Placements = kept
	c.vacate(p)
}

// vacate takes what only stands for room off what is launched.
func (c *consolidation) vacate(p *proposal) {
	shape := make(map[model.PodKey]int, len(p.extra))
	for i := range p.extra {
		shape[p.extra[i].PodKey] = p.extra[i].Shape
	}
	for i := range p.plan.Launches {
		l := &p.plan.Launches[i]
		l.Pods = slices.DeleteFunc(slices.Clone(l.Pods), func(k model.PodKey) bool {
			at, stands := shape[k]
			if stands {
				l.Requests = l.Requests.Minus(c.s.Shapes[at].Requests.NonNegative())
			}
			return stands
		})
	}
	p.plan.Launches = slices.DeleteFunc(p.plan.Launches, func(l model.Launch) bool { return len(l.Pods) == 0 })
}
