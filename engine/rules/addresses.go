package rules

import (
	"math"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// MostFree returns the index of the subnet with the most free addresses among those in which the pool launches in a
// zone, ties by ID, as providers choose it; -1 if there is none.
func MostFree(p *model.Pool, zone string, subnets []model.Subnet) int {
	best := -1
	for i := range subnets {
		if subnets[i].Zone == zone && slices.Contains(p.Subnets, subnets[i].ID) &&
			(best < 0 || subnets[i].Free > subnets[best].Free) {
			best = i
		}
	}
	return best
}

// FreeAddresses returns how many addresses one node of the pool can get in a zone; -1 if it has no subnet there.
func FreeAddresses(p *model.Pool, zone string, subnets []model.Subnet) int64 {
	if p.Subnets == nil {
		return math.MaxInt64
	}
	if i := MostFree(p, zone, subnets); i >= 0 {
		return subnets[i].Free
	}
	return -1
}

// LeastAddresses returns what a node of type t takes from its subnet for one pod.
func (v *View) LeastAddresses(t int) int64 { return v.AddressesFor(t, 1) }

// AddressesFor returns what a node of type t takes from its subnet for this many pods in addition to those of
// daemons.
func (v *View) AddressesFor(t int, pods int64) int64 {
	return v.Pool.Types[t].AddressesFor(pods + v.Overhead[t][model.Pods])
}

// ApplySubnets makes unavailable the offerings in zones whose subnets have fewer addresses than a node takes for one
// pod. It reports whether there were any. It may be called again with subnets that have no more addresses than before.
func (v *View) ApplySubnets(subnets []model.Subnet) (changed bool) {
	if v.Pool.Subnets == nil {
		return false
	}
	free := make([]int64, len(v.Zones))
	for z, zone := range v.Zones {
		free[z] = FreeAddresses(v.Pool, zone, subnets)
	}
	for t := range v.Offers {
		least := v.LeastAddresses(t)
		for i := range v.Offers[t] {
			if f := &v.Offers[t][i]; f.Available && free[f.Zone] < least {
				f.Available, f.Dry, changed = false, true, true
			}
		}
	}
	v.zoneFree = free
	return changed
}

// BlameAddresses names the type that takes the fewest addresses, how many it takes, and the most that a node can get
// in any of the zones. free holds the free addresses by zone.
func (v *View) BlameAddresses(types []int, zones Bits, free []int64, out *model.PoolVerdict) {
	if len(types) == 0 {
		return
	}
	least := slices.MinFunc(types, func(a, b int) int { return int(v.LeastAddresses(a) - v.LeastAddresses(b)) })
	most := int64(0)
	var names []string
	for z := range zones.All() {
		if free[z] >= 0 {
			names = append(names, v.Zones[z])
			most = max(most, free[z])
		}
	}
	slices.Sort(names)
	out.Object, out.Detail = strings.Join(names, ", "), model.Quantity("", v.LeastAddresses(least))
	out.BestOf = v.Pool.Types[least].Name
	out.Best = model.Quantity("", most)
}
