package solve

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// addresses are what the subnets have left after the nodes planned so far. A node is charged the most that one of its
// types takes, in every zone where it may be launched. Once a plan has charged half of a pool's subnet, each further
// node is limited to one zone, so that few addresses are charged in vain. A nil *addresses limits nothing.
type addresses struct {
	views   []*rules.View
	subnets []model.Subnet
	before  []int64 // what was free in each of them
	single  []bool  // by view: all its types take single addresses
	starved []bool  // by view: a node could not be planned for lack of addresses
}

func newAddresses(s *model.Snapshot, views []*rules.View) *addresses {
	if !slices.ContainsFunc(views, func(v *rules.View) bool { return v.Pool.Subnets != nil }) {
		return nil
	}
	a := &addresses{views: views, subnets: slices.Clone(s.Subnets), starved: make([]bool, len(views))}
	for i := range a.subnets {
		a.before = append(a.before, a.subnets[i].Free)
	}
	for _, v := range views {
		single := true
		for t := range v.Eligible.All() {
			if single = v.Pool.Types[t].SingleAddresses; !single {
				break
			}
		}
		a.single = append(a.single, single)
	}
	return a
}

// limits reports whether addresses limit what the pool launches.
func (a *addresses) limits(view int) bool { return a != nil && a.views[view].Pool.Subnets != nil }

// subnet returns the subnet from which the next node of the pool in a zone takes its addresses; nil if there is none.
func (a *addresses) subnet(view, zone int) *model.Subnet {
	v := a.views[view]
	if i := rules.MostFree(v.Pool, v.Zones[zone], a.subnets); i >= 0 {
		return &a.subnets[i]
	}
	return nil
}

// holds reports whether a zone has the addresses that a node of type t takes for this many pods.
func (a *addresses) holds(view, zone, t int, pods int64) bool {
	if !a.limits(view) {
		return true
	}
	s, v := a.subnet(view, zone), a.views[view]
	return s != nil && v.AddressesFor(t, pods) <= s.FreeFor(&v.Pool.Types[t])
}

// holdsAll reports whether a zone has the addresses that the node takes with any of its types.
func (a *addresses) holdsAll(n *plannedNode, zone int) bool {
	s := a.subnet(n.view, zone)
	return s != nil && n.addresses <= s.Free+s.Scattered && (n.inBlocks == 0 || n.inBlocks <= s.Free)
}

// scarce reports whether half of what a subnet of the pool had is charged.
func (a *addresses) scarce(view int) bool {
	for i := range a.subnets {
		s, more := &a.subnets[i], int64(0)
		if a.single[view] {
			more = s.Scattered
		}
		charged, had := a.before[i]-s.Free, max(a.before[i], 0)+more
		if charged > 0 && had-charged < had/2 && slices.Contains(a.views[view].Pool.Subnets, s.ID) {
			return true
		}
	}
	return false
}

// suit reports whether the node can be planned as it is: all its zones have its addresses, and it has one zone if
// addresses are scarce.
func (a *addresses) suit(n *plannedNode) bool {
	if !a.limits(n.view) {
		return true
	}
	count := 0
	for z := range n.Zones.All() {
		count++
		if !a.holdsAll(n, z) {
			return false
		}
	}
	return count == 1 || !a.scarce(n.view)
}

// narrow keeps the types and zones of a node for which the subnets have addresses, including those of the chosen
// offering. It reports whether it removed any.
func (a *addresses) narrow(n *plannedNode) (narrowed bool) {
	if !a.limits(n.view) {
		return false
	}
	v := a.views[n.view]
	chosen := slices.Index(v.Zones, n.chosen.Zone)
	n.addresses, n.inBlocks = 0, 0
	s := a.subnet(n.view, chosen)
	for _, t := range n.types {
		need := v.AddressesFor(t, n.load[model.Pods])
		if s == nil || need > s.FreeFor(&v.Pool.Types[t]) {
			n.bearing.Remove(t)
			narrowed = true
			continue
		}
		n.addresses = max(n.addresses, need)
		if !v.Pool.Types[t].SingleAddresses {
			n.inBlocks = max(n.inBlocks, need)
		}
	}
	one := a.scarce(n.view)
	for z := range n.Zones.All() {
		if z != chosen && (one || !a.holdsAll(n, z)) {
			n.Zones.Remove(z)
			narrowed = true
		}
	}
	return narrowed
}

// charge takes a node's addresses from its zones.
func (a *addresses) charge(n *plannedNode) {
	n.from = nil
	if !a.limits(n.view) {
		return
	}
	v := a.views[n.view]
	for z := range n.Zones.All() {
		if i := rules.MostFree(v.Pool, v.Zones[z], a.subnets); i >= 0 {
			a.subnets[i].Free -= n.addresses
			n.from = append(n.from, i)
		}
	}
}

// refund undoes charge.
func (a *addresses) refund(n *plannedNode) {
	for _, i := range n.from {
		a.subnets[i].Free += n.addresses
	}
	n.from = nil
}

// fewer returns the largest number of pods below n for which a node of type t takes fewer addresses than for n; 0 if
// there is none.
func (a *addresses) fewer(view, t, n int) int {
	if !a.limits(view) {
		return 0
	}
	v, need := a.views[view], a.views[view].AddressesFor(t, int64(n))
	for n--; n > 0 && v.AddressesFor(t, int64(n)) >= need; n-- {
	}
	return max(n, 0)
}

// fewestPods returns the fewest pod slots that a pod of the waiting groups requests: 1, unless a test says otherwise.
func (x *purchase) fewestPods() int64 {
	least := int64(1)
	for _, g := range x.groups {
		least = min(least, g.request[model.Pods])
	}
	return least
}

// AfterLaunches returns the subnets less what launches may take: the most of each launch's types, in each of its zones.
func AfterLaunches(s *model.Snapshot, launches []model.Launch) []model.Subnet {
	if len(launches) == 0 || len(s.Subnets) == 0 {
		return s.Subnets
	}
	out := slices.Clone(s.Subnets)
	views := map[string]*rules.View{} // by pool
	for i := range launches {
		l := &launches[i]
		pool := s.Pool(l.Pool)
		if pool == nil || pool.Subnets == nil {
			continue
		}
		if views[l.Pool] == nil {
			views[l.Pool] = rules.NewView(pool, s.Daemons)
		}
		most := mostAddresses(views[l.Pool], l)
		zones, _ := l.Requirements.Get(model.LabelZone)
		for _, zone := range zones.Values {
			if k := rules.MostFree(pool, zone, out); k >= 0 {
				out[k].Free -= most
			}
		}
	}
	return out
}

// mostAddresses returns the most addresses that any of the launch's types takes.
func mostAddresses(v *rules.View, l *model.Launch) (most int64) {
	pods := l.Requests[model.Pods] // with those of the daemons on the chosen type
	for t := range v.Pool.Types {
		if v.Pool.Types[t].Name == l.Chosen.Type {
			pods -= v.Overhead[t][model.Pods]
		}
	}
	for t := range v.Pool.Types {
		if slices.Contains(l.Types, v.Pool.Types[t].Name) {
			most = max(most, v.AddressesFor(t, pods))
		}
	}
	return most
}
