package solve

import (
	"github.com/nodeless/nodeless/engine/model"
)

// setAside removes from the search the groups for which no pool can launch anything now and that no existing node may
// take once other pods are placed. They do not change what the search finds.
func (p *problem) setAside() {
	p.screen = p.cluster.screenOf(p.market)
	feasible := p.groups[:0:0]
	for _, g := range p.groups {
		if g.left() == 0 || !p.feasible(g, p.classes).Empty() || p.mayFollow(g) {
			feasible = append(feasible, g)
		} else {
			g.setAside = true
			p.infeasible = append(p.infeasible, g)
		}
	}
	p.groups = feasible
}

// mayFollow reports whether an existing node may take pods of the group once the pods that they must be near or
// spread with are placed.
func (p *problem) mayFollow(g *group) bool {
	if len(g.shape.Affinity) == 0 && !hasHardSpread(g.shape) {
		return false
	}
	admits := false
	p.order.WithRoom(g.request, func(n int) bool {
		admits = p.state.Admits(g.index, n) == ""
		return !admits
	})
	return admits
}

// withoutInfeasible returns the snapshot without the pods that were set aside.
func (p *problem) withoutInfeasible() *model.Snapshot {
	if len(p.infeasible) == 0 {
		return p.s
	}
	aside := make([]bool, len(p.s.Pending))
	for _, g := range p.infeasible {
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

// infeasiblePods returns the pods that were set aside, not explained yet.
func (p *problem) infeasiblePods() []model.Unplaced {
	var out []model.Unplaced
	for _, g := range p.infeasible {
		for _, i := range g.pods {
			reason := model.Reason{Rule: model.RuleUnexplained}
			out = append(out, model.Unplaced{Pod: p.s.Pending[i].PodKey, Reason: reason})
		}
	}
	return out
}
