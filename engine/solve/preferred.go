package solve

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// maxPreferences is how many preferences of a shape are tried one by one; lighter ones are dropped if not all can be
// kept.
const maxPreferences = 8

// preference is a preference of a shape, and how it becomes a requirement.
type preference struct {
	weight int64
	kept   bool
	apply  func(*model.Shape)
}

// preferredSolve plans once more with the pods' preferences as requirements, as far as they can be kept.
type preferredSolve struct {
	s           *model.Snapshot
	policy      model.Policy
	plain       *Draft
	preferences [][]preference // by shape, heaviest first
}

// preferred returns the plan that keeps preferences: under Respect whenever it serves as many pods, none of them less
// important, under Priced if it costs no more than the preferences are worth; else the plain plan.
func preferred(s *model.Snapshot, policy model.Policy, plain *Draft) *Draft {
	x := &preferredSolve{s: s, policy: policy, plain: plain}
	x.collect()
	plan, weight, losers := x.solve()
	if weight == 0 {
		return plain
	}
	if len(losers) > 0 {
		plan, weight = x.oneByOne(losers)
	}
	switch {
	case weight == 0, len(plan.Plan.Unplaced) > len(plain.Plan.Unplaced), // other pods became unplaced
		compareUnplaced(s, &plan.Plan, &plain.Plan) > 0:
		return plain
	case policy.Preferences != model.Respect &&
		plan.Plan.EffectivePrice > plain.Plan.EffectivePrice+preferenceValue(weight, policy.PreferencePrice):
		return plain
	}
	plan.Plan.LowerBound = min(plan.Plan.LowerBound, plain.Plan.LowerBound)
	return plan
}

// solve plans with the kept preferences as requirements. It returns their weight, and the shapes that have more
// unplaced pods because of them.
func (x *preferredSolve) solve() (*Draft, int64, []int) {
	required, weight := x.asRequired()
	if required == nil {
		return x.plain, 0, nil
	}
	plan := provision(required, x.policy, newCluster(required, required))
	return plan, weight, x.losers(&plan.Plan)
}

// oneByOne is for shapes that cannot keep all their preferences: it adds each in turn, the heaviest first, and drops
// it again if pods become unplaced because of it.
func (x *preferredSolve) oneByOne(shapes []int) (*Draft, int64) {
	for _, shape := range shapes {
		for i := range x.preferences[shape] {
			x.preferences[shape][i].kept = false
		}
	}
	plan, weight, _ := x.solve()
	for i := range maxPreferences {
		tried := false
		for _, shape := range shapes {
			if i < len(x.preferences[shape]) {
				x.preferences[shape][i].kept, tried = true, true
			}
		}
		if !tried {
			break
		}
		next, more, losers := x.solve()
		if len(losers) == 0 {
			plan, weight = next, more
			continue
		}
		for _, shape := range losers {
			if i < len(x.preferences[shape]) {
				x.preferences[shape][i].kept = false
			}
		}
		if len(losers) < len(shapes) {
			if next, more, losers = x.solve(); len(losers) == 0 {
				plan, weight = next, more
			}
		}
	}
	return plan, weight
}

// preferenceValue returns what preferences of a total weight may cost; price is that of weight 100.
func preferenceValue(weight int64, price model.Price) model.Price {
	return model.Price(min(weight, 1<<20)) * min(max(price, 0), 1<<30) / 100
}

// collect lists the preferences of shapes whose pods may be placed differently, except those that no pool can meet.
func (x *preferredSolve) collect() {
	x.preferences = make([][]preference, len(x.s.Shapes))
	launched := map[model.PodKey]bool{}
	for i := range x.plain.Plan.Launches {
		for _, k := range x.plain.Plan.Launches[i].Pods {
			launched[k] = true
		}
	}
	var views []*rules.View
	seen := make([]bool, len(x.s.Shapes))
	for i := range x.s.Pending {
		pod := &x.s.Pending[i]
		if pod.Shape < 0 || pod.Shape >= len(seen) || seen[pod.Shape] ||
			x.policy.Preferences != model.Respect && !launched[pod.PodKey] {
			continue
		}
		seen[pod.Shape] = true
		shape := &x.s.Shapes[pod.Shape]
		if len(shape.Unmodelled) > 0 || shape.Blocked != "" {
			continue
		}
		if views == nil {
			for k := range x.s.Pools {
				views = append(views, rules.NewView(&x.s.Pools[k], nil))
			}
		}
		x.preferences[pod.Shape] = x.preferencesOf(shape, views)
	}
}

// preferencesOf returns a shape's preferences. ScheduleAnyway spreads and PreferNoSchedule taints have no weight of
// their own: they count as 100.
func (x *preferredSolve) preferencesOf(shape *model.Shape, views []*rules.View) []preference {
	var out []preference
	add := func(weight int64, apply func(*model.Shape)) { out = append(out, preference{weight, true, apply}) }
	required := shape.Required
	label := func(terms model.Requirements, weight int64) {
		more := required.And(terms)
		if slices.ContainsFunc(views, func(v *rules.View) bool { return len(v.Options(more, shape.AnyOf)) > 0 }) {
			required = more
			add(weight, func(s *model.Shape) { s.Required = s.Required.And(terms) })
		}
	}
	for _, f := range shape.Preferred {
		label(f.Terms, int64(f.Weight))
	}
	for i := range x.s.Pools {
		if p := &x.s.Pools[i]; rules.Avoided(p.Taints, shape.Tolerations) {
			label(model.Requirements{{Key: model.LabelPool, Complement: true, Values: []string{p.Name}}}, 100)
		}
	}
	for i := range shape.Spread {
		if !shape.Spread[i].Hard {
			add(100, func(s *model.Shape) {
				s.Spread = slices.Clone(s.Spread)
				s.Spread[i].Hard = true
			})
		}
	}
	for _, f := range shape.PreferredPods {
		switch {
		case f.Weight < 0:
			add(-int64(f.Weight), func(s *model.Shape) { s.AntiAffinity = append(slices.Clip(s.AntiAffinity), f.PodTerm) })
		case f.Weight > 0:
			add(int64(f.Weight), func(s *model.Shape) { s.Affinity = append(slices.Clip(s.Affinity), f.PodTerm) })
		}
	}
	slices.SortStableFunc(out, func(a, b preference) int { return cmp.Compare(b.weight, a.weight) })
	return out
}

// asRequired returns the snapshot with the kept preferences as requirements, and their weight for all pods; nil if
// none is kept.
func (x *preferredSolve) asRequired() (*model.Snapshot, int64) {
	out := *x.s
	out.Shapes = slices.Clip(x.s.Shapes)
	out.Pending = slices.Clone(x.s.Pending)
	at := make([]int, len(x.s.Shapes))        // of the new shape, 0 while there is none
	weights := make([]int64, len(x.s.Shapes)) // of the preferences that a shape keeps
	var weight int64
	for i := range out.Pending {
		pod := &out.Pending[i]
		shape := pod.Shape
		if shape < 0 || shape >= len(at) ||
			!slices.ContainsFunc(x.preferences[shape], func(p preference) bool { return p.kept }) {
			continue
		}
		if at[shape] == 0 {
			required := x.s.Shapes[shape]
			required.Original = &x.s.Shapes[shape]
			for _, p := range x.preferences[shape] {
				if p.kept {
					p.apply(&required)
					weights[shape] += p.weight
				}
			}
			required.Key += " strictly"
			at[shape] = len(out.Shapes)
			out.Shapes = append(out.Shapes, required)
		}
		weight += weights[shape]
		pod.Shape = at[shape]
	}
	if len(out.Shapes) == len(x.s.Shapes) {
		return nil, 0
	}
	return &out, weight
}

// losers returns the shapes with preferences that have more unplaced pods than in the plain plan.
func (x *preferredSolve) losers(plan *model.Plan) []int {
	shapeOf := make(map[model.PodKey]int, len(x.s.Pending))
	for i := range x.s.Pending {
		shapeOf[x.s.Pending[i].PodKey] = x.s.Pending[i].Shape
	}
	count := make([]int, len(x.s.Shapes))
	add := func(unplaced []model.Unplaced, n int) {
		for _, u := range unplaced {
			if shape := shapeOf[u.Pod]; shape >= 0 && shape < len(count) {
				count[shape] += n
			}
		}
	}
	add(plan.Unplaced, 1)
	add(x.plain.Plan.Unplaced, -1)
	var out []int
	for shape, n := range count {
		if n > 0 && len(x.preferences[shape]) > 0 {
			out = append(out, shape)
		}
	}
	return out
}
