package solve

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/suggest"
)

// Draft is a plan whose unplaced pods have no Reasons yet: their Rule is RuleUnexplained until Explain. The launches
// do not depend on the Reasons.
type Draft struct {
	Plan model.Plan
	from []*problem // the attempts that know the unplaced pods
}

// Explained returns the plan with the Reason of every unplaced pod.
func (d *Draft) Explained() model.Plan {
	d.Explain(&d.Plan, nil, nil)
	return d.Plan
}

// ExplainOnly returns the Reason of one pod, if it is unplaced.
func (d *Draft) ExplainOnly(key model.PodKey) model.Reason {
	for _, p := range d.from {
		for _, g := range slices.Concat(p.groups, p.infeasible) {
			if slices.ContainsFunc(g.pods, func(i int) bool { return p.s.Pending[i].PodKey == key }) {
				return explainer{p}.reasonFor(g)
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

// Explain gives the unplaced pods of the plan their Reasons, one for each shape. Shapes that the cache does not know
// come first. After each shape it calls goOn with the number of verdicts of a pool on a shape so far, and stops if
// that returns false; a nil goOn never stops it. A nil cache remembers nothing.
func (d *Draft) Explain(plan *model.Plan, cache *ReasonCache, goOn func(verdicts int) bool) {
	x := explaining{cache: cache, goOn: goOn, reasons: map[model.PodKey]*model.Reason{}}
	if cache != nil && len(d.from) > 0 {
		cache.begin(d.from[len(d.from)-1].s)
	}
	for _, p := range d.from {
		for _, g := range p.groups {
			x.explain(p, g, nil)
		}
	}
	for _, p := range d.from {
		x.explainInfeasible(p)
	}
	if cache != nil {
		cache.end()
	}
	for i := range plan.Unplaced {
		if reason := x.reasons[plan.Unplaced[i].Pod]; reason != nil {
			plan.Unplaced[i].Reason = *reason
		}
	}
}

// explaining is the state of one Explain.
type explaining struct {
	cache       *ReasonCache
	goOn        func(verdicts int) bool
	verdicts    int // so far
	suggestions int // shapes whose smallest change was searched for
	reasons     map[model.PodKey]*model.Reason
}

// explainInfeasible explains groups that were set aside. Their cached Reasons hold until a pool changes.
func (x *explaining) explainInfeasible(p *problem) {
	var anew []*group
	old := map[*group]*cachedReason{}
	for _, g := range p.infeasible {
		known := x.cache.recall(g.shape)
		switch {
		case g.left() == 0:
		case known != nil && known.current(x.cache):
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

// explain computes the Reason of a group, or repeats the previous one if no time is left.
func (x *explaining) explain(p *problem, g *group, before *cachedReason) {
	if g.left() == 0 {
		return
	}
	if x.goOn != nil && x.verdicts > 0 && !x.goOn(x.verdicts) {
		if before != nil {
			x.cache.keep(g.shape, before)
			x.give(p, g, &before.reason)
		}
		return
	}
	x.verdicts += max(len(p.views), 1)
	reason := explainer{p}.reasonFor(g)
	if x.suggestions < x.maxSuggestions(p) {
		x.suggestions++
		reason.Change = suggest.Smallest(p.s, g.shape, p.views, p.rooms, &reason)
	}
	if x.cache != nil {
		keepNearest(&reason, maxVerdicts)
		x.cache.learn(g.shape, reason)
	}
	x.give(p, g, &reason)
}

// maxSuggestions returns for how many shapes the smallest change is searched: fewer if there are many pools and the
// next plan is waiting.
func (x *explaining) maxSuggestions(p *problem) int {
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
