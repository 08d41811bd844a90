package solve

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// setAside takes the groups out of the search for which no pool can launch anything now, and which no existing node
// may take once other pods have their places. They cost the search nothing, and do not change what it finds.
func (p *problem) setAside() {
	p.screen = p.shared.screenOf(p.views, p.rooms, p.policy)
	if p.policy.Solver == model.FirstFit {
		return // it finds places on existing nodes on its way
	}
	hope := p.groups[:0:0]
	for _, g := range p.groups {
		c := p.classes[g.class]
		if g.left() == 0 || !p.screen.Views(g.request, c.required, c.anyOf, c.tolerations).Empty() || p.mayFollow(g) {
			hope = append(hope, g)
		} else {
			g.aside = true
			p.hopeless = append(p.hopeless, g)
		}
	}
	p.groups = hope
}

// mayFollow reports whether an existing node may take pods of the group once others have their places, near which
// they must be.
func (p *problem) mayFollow(g *group) bool {
	if len(g.shape.Affinity) == 0 && !slices.ContainsFunc(g.shape.Spread, func(c model.Spread) bool { return c.Hard }) {
		return false
	}
	admits := false
	p.order.WithRoom(g.request, func(n int) bool {
		admits = p.state.Admits(g.index, n) == ""
		return !admits
	})
	return admits
}

// withHope is the snapshot without the pods that were set aside.
func (p *problem) withHope() *model.Snapshot {
	if len(p.hopeless) == 0 {
		return p.s
	}
	aside := make([]bool, len(p.s.Pending))
	for _, g := range p.hopeless {
		for _, i := range g.pods {
			aside[i] = true
		}
	}
	out := *p.s
	out.Pending = make([]model.Pod, 0, len(p.s.Pending))
	for i := range p.s.Pending {
		if !aside[i] {
			out.Pending = append(out.Pending, p.s.Pending[i])
		}
	}
	return &out
}

// nearest is the rule of the pool that came nearest to a node for the group.
func (p *problem) nearest(g *group) model.Rule {
	if g.refused.BetweenPods() {
		return g.refused
	}
	var nearest model.Rule
	shape := *g.shape
	shape.Requests = g.request
	for i := range p.candidates(g).All() {
		verdict := p.views[i].Verdict(&shape, p.rooms[i], p.s.ResourceNames)
		if verdict.Rule == model.RuleSteps {
			p.lookCloser(g, i, &verdict)
		}
		if rules.Progress(verdict.Rule) > rules.Progress(nearest) {
			nearest = verdict.Rule
		}
	}
	return nearest
}

// candidates are the views that could launch a node for the group before anything was planned.
func (p *problem) candidates(g *group) rules.Bits {
	if p.screen == nil {
		return nil
	}
	c := p.classes[g.class]
	return p.screen.Views(g.request, c.required, c.anyOf, c.tolerations)
}
