package engine

import (
	"fmt"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/solve"
)

// maxFirmer is the maximum number of times that a fragile proposal is planned again.
const maxFirmer = 6

// firm returns the proposal, or a firmer one for the same nodes that survives kube-scheduler's own choices. While a
// proposal does not survive, its launches are enlarged step by step, as long as they still save enough.
func (c *proposals) firm(p *proposal) (*proposal, model.Reason) {
	first := p
	reason, wrong := c.fragile(p)
	for range maxFirmer {
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

// firmer plans again and relies less on free room elsewhere. In order: (1) pods that kube-scheduler would put on
// launched nodes, or leave pending, go to launched nodes; (2) all pods do; (3) launches get room for as many more
// pods as were left pending. It returns nil if the pods depend on each other, so that they can only be planned
// together.
func (c *proposals) firmer(p *proposal, wrong misplaced) *proposal {
	q := &proposal{
		victims: p.victims, moving: p.moving, plan: p.plan, firm: map[model.PodKey]bool{},
		extra: slices.Clip(p.extra),
	}
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

// planFor plans for the proposal's pods: firm pods go to launched nodes only, and the others keep their placements. A
// plan for one node is cut off at the node's price. A plan for a group is not: if it is too expensive, it still shows
// which nodes of the group should stay.
func (c *proposals) planFor(p *proposal, policy model.Policy) {
	below := model.Price(0)
	if len(p.victims) == 1 || len(p.firm) > 0 {
		for _, n := range p.victims {
			below += c.effective(n)
		}
	}
	if len(p.firm) == 0 {
		c.without(p, func(places *solve.Cluster) { p.plan = places.WhatIf(p.moving, policy, below) })
		return
	}
	kept := slices.DeleteFunc(slices.Clone(p.plan.Placements), func(x model.Placement) bool { return p.firm[x.Pod] })
	pods := slices.DeleteFunc(slices.Clone(p.moving), func(x model.Pod) bool { return !p.firm[x.PodKey] })
	c.projected.open(destinations{nowhere: true}).without(p.victims, func(places *solve.Cluster, _ []model.Pod) {
		p.plan = places.WhatIf(append(pods, p.extra...), policy, below)
	})
	p.plan.Placements = kept
	c.vacate(p)
}

// vacate removes the placeholders for extra room from the launches.
func (c *proposals) vacate(p *proposal) {
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
