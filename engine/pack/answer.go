package pack

import (
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// answer gives the pods that got nothing their Reason, one for each shape.
func (p *problem) answer() {
	for _, g := range p.groups {
		if g.left == 0 {
			continue
		}
		reason := p.why(g)
		for _, pod := range g.pods {
			p.refuse(pod, reason)
		}
	}
}

// why asks every pool; the answer of the pool that came nearest to a machine stands for all.
func (p *problem) why(g *group) model.Reason {
	if len(p.views) == 0 {
		return model.Reason{Rule: model.RuleNoPool}
	}
	if p.partial && g.tier < len(p.tiers) {
		return model.Reason{Rule: model.RuleSteps}
	}
	var out model.Reason
	nearest := -2
	shape := *g.shape
	shape.Requests = g.request
	for i, v := range p.views {
		verdict := v.Verdict(&shape, p.rooms[i], p.s.ResourceNames)
		if verdict.Rule == model.RuleSteps && p.classes[g.class].banned[i] {
			verdict.Rule = model.RuleMinValues
		}
		out.Pools = append(out.Pools, verdict)
		if progress := rules.Progress(verdict.Rule); progress > nearest {
			nearest = progress
			out.Rule, out.Object, out.Detail = verdict.Rule, verdict.Object, verdict.Detail
			out.Best, out.BestOf = verdict.Best, verdict.BestOf
		}
	}
	return out
}

func (p *problem) refuse(pod int, reason model.Reason) {
	p.plan.Unplaced = append(p.plan.Unplaced, model.Unplaced{Pod: p.s.Pending[pod].PodKey, Reason: reason})
}
