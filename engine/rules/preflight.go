package rules

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// SpareSlots is the number of pod slots that a node launched under an enforced preflight keeps free beyond the
// planned pods, so that a DaemonSet that is rolled out or added later fits. Types that take few pods keep none.
const SpareSlots = 2

// ApplyPreflight makes unavailable the offerings of types whose nodes would take more pods than they have addresses
// for, and keeps SpareSlots free on the others.
func (v *View) ApplyPreflight() {
	v.Enforced = true
	for t := range v.Offers {
		if v.Net[t][model.Pods] > 4*SpareSlots {
			v.Net[t][model.Pods] -= SpareSlots
		}
		if v.Pool.Types[t].Unaddressed == 0 {
			continue
		}
		for i := range v.Offers[t] {
			if f := &v.Offers[t][i]; f.Available {
				f.Available, f.Refused = false, true
			}
		}
	}
}

// InStock reports whether the cloud has capacity for the offer.
func (o *Offer) InStock() bool { return o.Available || o.Dry || o.Refused }

// addressed returns the types whose nodes have addresses for all pods that they take. If there are none, out names the
// type that comes nearest, how many pods it takes, and how many of them would have no address.
func (v *View) addressed(types []int, out *model.PoolVerdict) []int {
	fine := filter(types, func(t int) bool { return v.Pool.Types[t].Unaddressed == 0 })
	if len(fine) == 0 && len(types) > 0 {
		t := &v.Pool.Types[slices.MinFunc(types, func(a, b int) int {
			return int(v.Pool.Types[a].Unaddressed - v.Pool.Types[b].Unaddressed)
		})]
		out.Object, out.BestOf = t.Name, t.Name
		out.Detail, out.Best = model.Quantity("", t.Unaddressed), model.Quantity("", t.Capacity[model.Pods])
	}
	return fine
}
