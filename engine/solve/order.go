package solve

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// sortPlan puts the plan into its canonical order.
func sortPlan(plan *model.Plan) {
	plan.Placements = sortedByPod(plan.Placements, func(x *model.Placement) *model.PodKey { return &x.Pod })
	plan.Unplaced = sortedByPod(plan.Unplaced, func(x *model.Unplaced) *model.PodKey { return &x.Pod })
	sortLaunches(plan.Launches)
}

func sortLaunches(launches []model.Launch) {
	byID := func(a, b model.Launch) int { return strings.Compare(a.ID, b.ID) }
	if !slices.IsSortedFunc(launches, byID) {
		slices.SortStableFunc(launches, byID)
	}
}

// sortedByPod sorts stably. The elements are large, so each is moved only once.
func sortedByPod[T any](all []T, of func(*T) *model.PodKey) []T {
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	byKey := func(i, j int) int {
		a, b := of(&all[i]), of(&all[j])
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name),
			strings.Compare(a.UID, b.UID), i-j)
	}
	if slices.IsSortedFunc(order, byKey) {
		return all
	}
	slices.SortFunc(order, byKey)
	out := make([]T, len(all))
	for i, at := range order {
		out[i] = all[at]
	}
	return out
}
