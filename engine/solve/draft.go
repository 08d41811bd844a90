package solve

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/suggest"
)

// Draft is a plan whose pods without a place have no Reasons yet: until Explain has found them their Rule is
// RuleUnexplained. What is launched does not depend on them.
type Draft struct {
	Plan model.Plan
	from []*problem // the attempts that know of the pods without a place
}

// Explained gives every pod without a place its Reason.
func (d *Draft) Explained() model.Plan {
	d.Explain(&d.Plan, nil, nil)
	return d.Plan
}

// ExplainOnly returns the Reason of one pod, if it is without a place.
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

// Explain gives the pods without a place in the plan their Reasons, one for each shape, those of which the cache knows
// none first. After the first shape it goes on as long as goOn, which gets the number of verdicts of a pool on a shape
// so far, lets it; nil = to the end. Without a cache nothing is remembered.
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
	suggestions int // shapes for which the smallest change was looked for
	reasons     map[model.PodKey]*model.Reason
}

// explainInfeasible explains groups that were set aside: what is known of them stays true until a pool changes.
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

// explain finds out why a group gets nothing, or repeats what was true of it before.
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

// maxSuggestions returns for how many shapes the smallest change is looked for: for fewer where that takes long and
// somebody waits for the next plan.
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
