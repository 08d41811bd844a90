package pack

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// preferred plans once more with every preference as a rule. Under Priced the dearer plan is taken if it costs no more
// than the preferences are worth, under Respect whenever it serves as many pods. Preferences that no machine can satisfy are
// left out; pods that then find no place are planned without theirs.
func preferred(s *model.Snapshot, policy model.Policy, plain model.Plan) model.Plan {
	launched := map[model.PodKey]bool{}
	for i := range plain.Launches {
		for _, k := range plain.Launches[i].Pods {
			launched[k] = true
		}
	}
	strict, weight := strictly(s, launched, policy.Preferences == model.Respect)
	if strict == nil {
		return plain
	}
	plan := provision(strict, policy)
	if len(plan.Unplaced) > len(plain.Unplaced) {
		plan, weight = withoutThose(s, strict, policy, plan)
	}
	if len(plan.Unplaced) > len(plain.Unplaced) {
		return plain
	}
	if policy.Preferences == model.Respect || plan.Counts <= plain.Counts+worth(weight, policy.PreferencePrice) {
		plan.LowerBound = min(plan.LowerBound, plain.LowerBound)
		return plan
	}
	return plain
}

// worth is what preferences of that weight may cost, a price being that of one of weight 100.
func worth(weight int64, price model.Price) model.Price {
	return model.Price(min(weight, 1<<20)) * min(max(price, 0), 1<<30) / 100
}

// strictly is the snapshot in which the pods' preferences are rules, and their weight in all; nil if they have none.
func strictly(s *model.Snapshot, launched map[model.PodKey]bool, all bool) (*model.Snapshot, int64) {
	out := *s
	out.Shapes = slices.Clip(s.Shapes)
	out.Pending = slices.Clone(s.Pending)
	strict := make([]int, len(s.Shapes)) // by shape: index of the strict one, -1 if it has no preferences
	weights := make([]int64, len(s.Shapes))
	for i := range strict {
		strict[i] = -2
	}
	var weight int64
	for i := range out.Pending {
		pod := &out.Pending[i]
		if pod.Shape < 0 || pod.Shape >= len(s.Shapes) || !all && !launched[pod.PodKey] {
			continue
		}
		if strict[pod.Shape] == -2 {
			strict[pod.Shape] = -1
			if shape, w := strictShape(s, &s.Shapes[pod.Shape]); w > 0 {
				strict[pod.Shape], weights[pod.Shape] = len(out.Shapes), w
				out.Shapes = append(out.Shapes, shape)
			}
		}
		weight += weights[pod.Shape]
		if at := strict[pod.Shape]; at >= 0 {
			pod.Shape = at
		}
	}
	if len(out.Shapes) == len(s.Shapes) {
		return nil, 0
	}
	return &out, weight
}

// strictShape makes rules of a shape's preferences, the weightiest first, as far as some pool can keep them.
func strictShape(s *model.Snapshot, from *model.Shape) (model.Shape, int64) {
	shape := *from
	var weight int64
	for _, f := range from.Preferred {
		more := f.Terms.And(shape.Required)
		if possible(s, &shape, more) {
			shape.Required = more
			weight += int64(f.Weight)
		}
	}
	for i := range from.Spread {
		if !from.Spread[i].Hard {
			if weight += 100; &shape.Spread[0] == &from.Spread[0] {
				shape.Spread = slices.Clone(from.Spread)
			}
			shape.Spread[i].Hard = true
		}
	}
	for _, f := range from.PreferredPods {
		switch {
		case f.Weight < 0:
			shape.AntiAffinity = append(slices.Clip(shape.AntiAffinity), f.PodTerm)
			weight -= int64(f.Weight)
		case f.Weight > 0:
			shape.Affinity = append(slices.Clip(shape.Affinity), f.PodTerm)
			weight += int64(f.Weight)
		}
	}
	for i := range s.Pools {
		avoid := model.Requirements{{Key: model.LabelPool, Complement: true, Values: []string{s.Pools[i].Name}}}
		if more := shape.Required.And(avoid); avoids(s.Pools[i].Taints, from.Tolerations) && possible(s, &shape, more) {
			shape.Required = more
			weight += 100
		}
	}
	if len(from.Unmodelled) > 0 || from.Blocked != "" {
		return shape, 0
	}
	shape.Key += " strictly"
	return shape, weight
}

// avoids reports whether some taint should keep such pods away where they have the choice.
func avoids(taints []model.Taint, tolerations []model.Toleration) bool {
	return slices.ContainsFunc(taints, func(t model.Taint) bool {
		return t.Effect == model.PreferNoSchedule &&
			!slices.ContainsFunc(tolerations, func(x model.Toleration) bool { return x.Tolerates(t) })
	})
}

// possible reports whether some type of some pool can still have the labels.
func possible(s *model.Snapshot, shape *model.Shape, required model.Requirements) bool {
	for i := range s.Pools {
		if len(rules.NewView(&s.Pools[i], nil).Options(required, shape.AnyOf)) > 0 {
			return true
		}
	}
	return false
}

// withoutThose plans again with the pods that found no place as they are, without their preferences.
func withoutThose(s, strict *model.Snapshot, policy model.Policy, plan model.Plan) (model.Plan, int64) {
	out := *strict
	out.Pending = slices.Clone(strict.Pending)
	lost := map[model.PodKey]bool{}
	for _, u := range plan.Unplaced {
		lost[u.Pod] = true
	}
	plainShapes := map[int]bool{}
	for i := range out.Pending {
		if lost[out.Pending[i].PodKey] {
			plainShapes[out.Pending[i].Shape] = true
		}
	}
	var weight int64
	weights := map[int]int64{}
	for i := range out.Pending {
		at := out.Pending[i].Shape
		switch {
		case at < 0 || at < len(s.Shapes):
		case plainShapes[at]:
			out.Pending[i].Shape = s.Pending[i].Shape
		default:
			if _, ok := weights[at]; !ok {
				_, weights[at] = strictShape(s, &s.Shapes[s.Pending[i].Shape])
			}
			weight += weights[at]
		}
	}
	return provision(&out, policy), weight
}
