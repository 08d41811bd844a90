package solve

import (
	"cmp"
	"encoding/binary"
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

// sortedByPod sorts stably. The elements are large: each is moved but once.
func sortedByPod[T any](all []T, of func(*T) *model.PodKey) []T {
	order := make([]podPosition, len(all))
	for i := range all {
		order[i] = podPosition{key: of(&all[i]), at: i}
	}
	if slices.IsSortedFunc(order, podPosition.compare) {
		return all
	}
	setPrefixes(order)
	slices.SortFunc(order, podPosition.compare)
	out := make([]T, len(all))
	for i := range order {
		out[i] = all[order[i].at]
	}
	return out
}

// podPosition is a pod's key and where it was.
type podPosition struct {
	key    *model.PodKey
	prefix uint64 // the bytes of the name after what all names have in common: it decides most comparisons
	at     int
}

// setPrefixes sets the prefixes if all pods are in one namespace.
func setPrefixes(pods []podPosition) {
	first := pods[0].key
	common := len(first.Name)
	for i := range pods {
		if pods[i].key.Namespace != first.Namespace {
			return
		}
		name := pods[i].key.Name
		common = min(common, len(name))
		for name[:common] != first.Name[:common] {
			common--
		}
	}
	for i := range pods {
		var prefix [8]byte
		copy(prefix[:], pods[i].key.Name[common:])
		pods[i].prefix = binary.BigEndian.Uint64(prefix[:])
	}
}

func (a podPosition) compare(b podPosition) int {
	if a.prefix != b.prefix {
		return cmp.Compare(a.prefix, b.prefix)
	}
	x, y := a.key, b.key
	switch {
	case x.Namespace != y.Namespace:
		return strings.Compare(x.Namespace, y.Namespace)
	case x.Name != y.Name:
		return strings.Compare(x.Name, y.Name)
	case x.UID != y.UID:
		return strings.Compare(x.UID, y.UID)
	}
	return a.at - b.at
}
