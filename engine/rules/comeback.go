package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// maxNamed is the number of offerings that a text lists.
const maxNamed = 3

// retryTimes lists the unavailable offerings of these types within the option in the order in which they are tried
// again: by time, then price. It is "" if none of the times is known.
func (v *View) retryTimes(types []int, o *Option) string {
	type out struct {
		model.OfferingKey
		again time.Time
		price model.Price
	}
	var all []out
	for _, t := range types {
		for _, f := range v.Pool.Types[t].Offerings {
			z, c := slices.Index(v.Zones, f.Zone), slices.Index(v.Capacities, f.CapacityType)
			if !f.RetryAt.IsZero() && z >= 0 && c >= 0 && o.Zones[z] && o.Capacity[c] {
				all = append(all, out{model.OfferingKey{Type: v.Pool.Types[t].Name, Zone: f.Zone, CapacityType: f.CapacityType},
					f.RetryAt, f.Price})
			}
		}
	}
	slices.SortFunc(all, func(a, b out) int {
		return cmp.Or(a.again.Compare(b.again), cmp.Compare(a.price, b.price), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.CapacityType, b.CapacityType))
	})
	var named []string
	for _, x := range all[:min(len(all), maxNamed)] {
		named = append(named, fmt.Sprintf("%s %s in %s at %s", x.Type, x.CapacityType, x.Zone,
			x.again.UTC().Format(time.RFC3339)))
	}
	if more := len(all) - maxNamed; more > 0 {
		named = append(named, fmt.Sprintf("%d more", more))
	}
	return strings.Join(named, ", then ")
}
