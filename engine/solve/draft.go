package solve

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
	"github.com/nodeless/nodeless/engine/suggest"
)

// Draft is a plan whose pods without a place are yet to get their Reasons: until Explain has found them out their
// Rule is RuleUnexplained. What is launched does not depend on them.
type Draft struct {
	Plan model.Plan
	from []*problem // where the plan was found, and who knows of its pods without a place
}

// Explained gives every pod without a place its Reason.
func (d *Draft) Explained() model.Plan {
	d.Explain(&d.Plan, nil, nil)
	return d.Plan
}

// ExplainOnly gives one pod its Reason, if it is without a place.
func (d *Draft) ExplainOnly(key model.PodKey) model.Reason {
	for _, p := range d.from {
		for _, g := range slices.Concat(p.groups, p.hopeless) {
			if slices.ContainsFunc(g.pods, func(i int) bool { return p.s.Pending[i].PodKey == key }) {
				return p.why(g)
			}
		}
	}
	for _, u := range d.Plan.Unplaced {
		if u.Pod == key {
			return u.Reason
		}
	}
	return model.Reason{}
}

// Explain gives the pods without a place in the plan their Reasons, one for each shape, those of which the memory
// knows none first. After the first shape it goes on as long as goOn, told how many verdicts of a pool on a shape
// that took, lets it; nil = to the end. Without a memory nothing is remembered.
func (d *Draft) Explain(plan *model.Plan, m *Memory, goOn func(verdicts int) bool) {
	x := explaining{memory: m, goOn: goOn, reasons: map[model.PodKey]*model.Reason{}}
	if m != nil && len(d.from) > 0 {
		m.begin(d.from[len(d.from)-1].s)
	}
	for _, p := range d.from {
		for _, g := range p.groups {
			x.explain(p, g, nil)
		}
	}
	for _, p := range d.from {
		x.hopeless(p)
	}
	if m != nil {
		m.end()
	}
	for i := range plan.Unplaced {
		if reason := x.reasons[plan.Unplaced[i].Pod]; reason != nil {
			plan.Unplaced[i].Reason = *reason
		}
	}
}

// explaining is the state of one Explain.
type explaining struct {
	memory   *Memory
	goOn     func(verdicts int) bool
	verdicts int // so far
	changes  int // shapes that were asked for the smallest change
	reasons  map[model.PodKey]*model.Reason
}

// hopeless explains groups that were set aside: what is known of them stays true until a pool changes.
func (x *explaining) hopeless(p *problem) {
	var anew []*group
	old := map[*group]*remembered{}
	for _, g := range p.hopeless {
		known := x.memory.recall(g.shape)
		switch {
		case g.left() == 0:
		case known != nil && known.current(x.memory):
			x.give(p, g, &known.reason)
		default:
			old[g] = known
			anew = append(anew, g)
		}
	}
	slices.SortStableFunc(anew, func(a, b *group) int { return cmp.Compare(old[a].since(), old[b].since()) })
	for _, g := range anew {
		x.explain(p, g, old[g])
	}
}

// explain finds out why a group gets nothing, or says what was true of it before.
func (x *explaining) explain(p *problem, g *group, before *remembered) {
	if g.left() == 0 {
		return
	}
	if x.goOn != nil && x.verdicts > 0 && !x.goOn(x.verdicts) {
		if before != nil {
			x.memory.keep(g.shape, before)
			x.give(p, g, &before.reason)
		}
		return
	}
	x.verdicts += max(len(p.views), 1)
	reason := p.why(g)
	if x.changes < x.mostChanges(p) {
		x.changes++
		reason.Change = suggest.Smallest(p.s, g.shape, p.views, p.rooms, &reason)
	}
	if x.memory != nil {
		keepNearest(&reason, mostPools)
		x.memory.learn(g.shape, reason)
	}
	x.give(p, g, &reason)
}

// mostChanges is for how many shapes the smallest change is looked for: where it takes long, and who waits for the
// next plan pays, for fewer.
func (x *explaining) mostChanges(p *problem) int {
	const tries = 2000
	if x.goOn == nil {
		return suggest.MaxShapes
	}
	return max(1, min(suggest.MaxShapes, tries/max(len(p.views), 1)))
}

func (x *explaining) give(p *problem, g *group, reason *model.Reason) {
	for _, i := range g.pods {
		x.reasons[p.s.Pending[i].PodKey] = reason
	}
}

// refuseRest notes the pods that got nothing.
func (p *problem) refuseRest() {
	for _, g := range slices.Concat(p.groups, p.hopeless) {
		for _, pod := range g.pods {
			p.refuse(pod, model.Reason{Rule: model.RuleUnexplained})
		}
	}
}

// withoutHope are the answers of the pods that were set aside.
func (p *problem) withoutHope() []model.Unplaced {
	var out []model.Unplaced
	for _, g := range p.hopeless {
		for _, i := range g.pods {
			reason := model.Reason{Rule: model.RuleUnexplained}
			out = append(out, model.Unplaced{Pod: p.s.Pending[i].PodKey, Reason: reason})
		}
	}
	return out
}

// roomOf is what the limits of a pool leave for a group: one that was set aside could launch nothing before anything
// was planned.
func (p *problem) roomOf(g *group, view int) rules.Headroom {
	if g.aside {
		return p.views[view].Headroom()
	}
	return p.rooms[view]
}
