package rules

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// MostFree returns the index of the subnet with the most free addresses among those in which the pool launches in a
// zone, as providers choose it: of equal ones that with the most scattered, then by ID; -1 if there is none.
func MostFree(p *model.Pool, zone string, subnets []model.Subnet) int {
	best := -1
	for i := range subnets {
		s := &subnets[i]
		if s.Zone != zone || !slices.Contains(p.Subnets, s.ID) {
			continue
		}
		if best < 0 || cmp.Or(cmp.Compare(max(s.Free, 0), max(subnets[best].Free, 0)),
			cmp.Compare(s.Free+s.Scattered, subnets[best].Free+subnets[best].Scattered)) > 0 {
			best = i
		}
	}
	return best
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
	from := make([]int, len(v.Zones))
	for z, zone := range v.Zones {
		from[z] = MostFree(v.Pool, zone, subnets)
	}
	for t := range v.Offers {
		least := v.LeastAddresses(t)
		for i := range v.Offers[t] {
			f := &v.Offers[t][i]
			if s := from[f.Zone]; f.Available && (s < 0 || subnets[s].FreeFor(&v.Pool.Types[t]) < least) {
				f.Available, f.Dry, changed = false, true, true
			}
		}
	}
	v.limited, v.subnets = true, subnets
	return changed
}

// BlameAddresses names the type that takes the fewest addresses, how many it takes, the most that a node can get in any
// of the zones, and the subnet that would have enough if its addresses were not scattered.
func (v *View) BlameAddresses(types []int, zones Bits, subnets []model.Subnet, out *model.PoolVerdict) {
	if len(types) == 0 {
		return
	}
	least := slices.MinFunc(types, func(a, b int) int { return int(v.LeastAddresses(a) - v.LeastAddresses(b)) })
	most, typ := int64(0), &v.Pool.Types[least]
	var names []string
	for z := range zones.All() {
		if i := MostFree(v.Pool, v.Zones[z], subnets); i >= 0 {
			names = append(names, v.Zones[z])
			most = max(most, subnets[i].FreeFor(typ))
		}
	}
	slices.Sort(names)
	out.Object, out.Detail = strings.Join(names, ", "), model.Quantity("", v.LeastAddresses(least))
	out.BestOf = typ.Name
	out.Best = model.Quantity("", most)
	out.Fragmented = nil
	if typ.SingleAddresses {
		return
	}
	for i := range subnets {
		s := &subnets[i]
		if s.Scattered > 0 && slices.Contains(names, s.Zone) && slices.Contains(v.Pool.Subnets, s.ID) &&
			s.Free+s.Scattered >= v.LeastAddresses(least) &&
			(out.Fragmented == nil || s.Free+s.Scattered > out.Fragmented.Free+out.Fragmented.Scattered) {
			out.Fragmented = new(*s)
		}
	}
}
