package solve

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// mostWishes is how many wishes of a shape are tried one by one; lighter ones are given up where not all can be had.
const mostWishes = 8

// wish is a preference of a shape, and how it becomes a rule.
type wish struct {
	weight int64
	kept   bool
	apply  func(*model.Shape)
}

// preferences plans once more with the pods' wishes as rules, so far as they can be had.
type preferences struct {
	s      *model.Snapshot
	policy model.Policy
	plain  *Draft
	wishes [][]wish // by shape, the weightiest first
}

// preferred takes the plan that keeps preferences: under Respect whenever it serves as many pods, under Priced if it costs no
// more than the preferences are worth.
func preferred(s *model.Snapshot, policy model.Policy, plain *Draft) *Draft {
	p := &preferences{s: s, policy: policy, plain: plain}
	p.gather()
	plan, weight, lost := p.plan()
	if weight == 0 {
		return plain
	}
	if len(lost) > 0 {
		plan, weight = p.oneByOne(lost)
	}
	switch {
	case weight == 0, len(plan.Plan.Unplaced) > len(plain.Plan.Unplaced): // others lost their places to those that are choosy
		return plain
	case policy.Preferences != model.Respect && plan.Plan.EffectivePrice > plain.Plan.EffectivePrice+worth(weight, policy.PreferencePrice):
		return plain
	}
	plan.Plan.LowerBound = min(plan.Plan.LowerBound, plain.Plan.LowerBound)
	return plan
}

// plan plans with the wishes that are kept. It gives their weight, and the shapes that lose pods by them.
func (p *preferences) plan() (*Draft, int64, []int) {
	strict, weight := p.strictly()
	if strict == nil {
		return p.plain, 0, nil
	}
	plan := provision(strict, p.policy, placesIn(strict, strict))
	return plan, weight, p.lost(&plan.Plan)
}

// oneByOne is for shapes that cannot have all their wishes: each is added in turn, the weightiest first, and given up again if
// pods lose their places by it.
func (p *preferences) oneByOne(shapes []int) (*Draft, int64) {
	for _, shape := range shapes {
		for i := range p.wishes[shape] {
			p.wishes[shape][i].kept = false
		}
	}
	plan, weight, _ := p.plan()
	for i := range mostWishes {
		tried := false
		for _, shape := range shapes {
			if i < len(p.wishes[shape]) {
				p.wishes[shape][i].kept, tried = true, true
			}
		}
		if !tried {
			break
		}
		next, more, lost := p.plan()
		if len(lost) == 0 {
			plan, weight = next, more
			continue
		}
		for _, shape := range lost {
			if i < len(p.wishes[shape]) {
				p.wishes[shape][i].kept = false
			}
		}
		if len(lost) < len(shapes) {
			if next, more, lost = p.plan(); len(lost) == 0 {
				plan, weight = next, more
			}
		}
	}
	return plan, weight
}

// worth is what preferences of that weight may cost, a price being that of one of weight 100.
func worth(weight int64, price model.Price) model.Price {
	return model.Price(min(weight, 1<<20)) * min(max(price, 0), 1<<30) / 100
}

// gather lists the wishes of the shapes of pods that may be placed otherwise. What nobody can have is left out.
func (p *preferences) gather() {
	p.wishes = make([][]wish, len(p.s.Shapes))
	launched := map[model.PodKey]bool{}
	for i := range p.plain.Plan.Launches {
		for _, k := range p.plain.Plan.Launches[i].Pods {
			launched[k] = true
		}
	}
	var views []*rules.View
	seen := make([]bool, len(p.s.Shapes))
	for i := range p.s.Pending {
		shape := p.s.Pending[i].Shape
		if shape < 0 || shape >= len(seen) || seen[shape] || p.policy.Preferences != model.Respect && !launched[p.s.Pending[i].PodKey] {
			continue
		}
		seen[shape] = true
		x := &p.s.Shapes[shape]
		if len(x.Unmodelled) > 0 || x.Blocked != "" {
			continue
		}
		if views == nil {
			for k := range p.s.Pools {
				views = append(views, rules.NewView(&p.s.Pools[k], nil))
			}
		}
		p.wishes[shape] = p.wishesOf(x, views)
	}
}

// wishesOf are a shape's preferences. ScheduleAnyway spreads and PreferNoSchedule taints have no weight of their own: they
// count as 100.
func (p *preferences) wishesOf(x *model.Shape, views []*rules.View) []wish {
	var out []wish
	required := x.Required
	label := func(terms model.Requirements, weight int64) {
		more := required.And(terms)
		if slices.ContainsFunc(views, func(v *rules.View) bool { return len(v.Options(more, x.AnyOf)) > 0 }) {
			required = more
			out = append(out, wish{weight, true, func(s *model.Shape) { s.Required = s.Required.And(terms) }})
		}
	}
	for _, f := range x.Preferred {
		label(f.Terms, int64(f.Weight))
	}
	for i := range p.s.Pools {
		if avoids(p.s.Pools[i].Taints, x.Tolerations) {
			label(model.Requirements{{Key: model.LabelPool, Complement: true, Values: []string{p.s.Pools[i].Name}}}, 100)
		}
	}
	for i := range x.Spread {
		if !x.Spread[i].Hard {
			out = append(out, wish{100, true, func(s *model.Shape) {
				s.Spread = slices.Clone(s.Spread)
				s.Spread[i].Hard = true
			}})
		}
	}
	for _, f := range x.PreferredPods {
		switch {
		case f.Weight < 0:
			out = append(out, wish{-int64(f.Weight), true, func(s *model.Shape) { s.AntiAffinity = append(slices.Clip(s.AntiAffinity), f.PodTerm) }})
		case f.Weight > 0:
			out = append(out, wish{int64(f.Weight), true, func(s *model.Shape) { s.Affinity = append(slices.Clip(s.Affinity), f.PodTerm) }})
		}
	}
	slices.SortStableFunc(out, func(a, b wish) int { return cmp.Compare(b.weight, a.weight) })
	return out
}

// avoids reports whether some taint should keep such pods away where they have the choice.
func avoids(taints []model.Taint, tolerations []model.Toleration) bool {
	return slices.ContainsFunc(taints, func(t model.Taint) bool {
		return t.Effect == model.PreferNoSchedule &&
			!slices.ContainsFunc(tolerations, func(x model.Toleration) bool { return x.Tolerates(t) })
	})
}

// strictly is the snapshot in which the wishes that are kept are rules, and their weight for all pods; nil if none are.
func (p *preferences) strictly() (*model.Snapshot, int64) {
	out := *p.s
	out.Shapes = slices.Clip(p.s.Shapes)
	out.Pending = slices.Clone(p.s.Pending)
	at := make([]int, len(p.s.Shapes)) // of the strict shape, 0 while there is none
	var weight int64
	for i := range out.Pending {
		pod := &out.Pending[i]
		shape := pod.Shape
		if shape < 0 || shape >= len(at) || !slices.ContainsFunc(p.wishes[shape], func(w wish) bool { return w.kept }) {
			continue
		}
		if at[shape] == 0 {
			strict := p.s.Shapes[shape]
			for _, w := range p.wishes[shape] {
				if w.kept {
					w.apply(&strict)
				}
			}
			strict.Key += " strictly"
			at[shape] = len(out.Shapes)
			out.Shapes = append(out.Shapes, strict)
		}
		for _, w := range p.wishes[shape] {
			if w.kept {
				weight += w.weight
			}
		}
		pod.Shape = at[shape]
	}
	if len(out.Shapes) == len(p.s.Shapes) {
		return nil, 0
	}
	return &out, weight
}

// lost are the shapes with wishes of which more pods go without than if they had none.
func (p *preferences) lost(plan *model.Plan) []int {
	of := make(map[model.PodKey]int, len(p.s.Pending))
	for i := range p.s.Pending {
		of[p.s.Pending[i].PodKey] = p.s.Pending[i].Shape
	}
	count := make([]int, len(p.s.Shapes))
	for _, u := range plan.Unplaced {
		if shape := of[u.Pod]; shape >= 0 && shape < len(count) {
			count[shape]++
		}
	}
	for _, u := range p.plain.Plan.Unplaced {
		if shape := of[u.Pod]; shape >= 0 && shape < len(count) {
			count[shape]--
		}
	}
	var out []int
	for shape, n := range count {
		if n > 0 && len(p.wishes[shape]) > 0 {
			out = append(out, shape)
		}
	}
	return out
}
