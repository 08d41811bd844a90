package reason

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/nodeless/nodeless/engine/model"
)

// blockSize is the number of addresses of a /28 block.
const blockSize = 16

// fragmented is the clause about a subnet whose free addresses are scattered.
func fragmented(x *model.Subnet) string {
	blocks := "no free /28 block"
	if n := x.Free / blockSize; n > 0 {
		blocks = "only " + plural(strconv.FormatInt(n, 10), "free /28 block")
	}
	return fmt.Sprintf("subnet %s in %s has %d free addresses but %s", x.ID, x.Zone, x.Free+x.Scattered, blocks)
}

// avoided is the clause about a fragmented subnet in whose zone the launch would cost no more, "" if there is none. It
// says nothing of launches for pods that may have other reasons to be in their zone.
func avoided(s *model.Snapshot, l *model.Launch) string {
	pool := s.Pool(l.Pool)
	if pool == nil {
		return ""
	}
	i := slices.IndexFunc(pool.Types, func(t model.InstanceType) bool { return t.Name == l.Chosen.Type })
	for k := range s.Subnets {
		x := &s.Subnets[k]
		if i >= 0 && x.Scattered > 0 && isAvoided(s, pool, x, &pool.Types[i], l) && !choosesZone(s, l.Pods) {
			return fragmented(x)
		}
	}
	return ""
}

// isAvoided reports whether a type could be launched in the zone of a subnet, at no higher price, if its addresses were
// not scattered.
func isAvoided(s *model.Snapshot, p *model.Pool, x *model.Subnet, t *model.InstanceType, l *model.Launch) bool {
	need := t.AddressesFor(l.Requests[model.Pods])
	enough := func(o model.Subnet) bool {
		return o.Zone == x.Zone && o.FreeFor(t) >= need && slices.Contains(p.Subnets, o.ID)
	}
	cheap := func(o model.Offering) bool {
		return o.Zone == x.Zone && o.CapacityType == l.Chosen.CapacityType && o.Available && o.Price <= l.Chosen.Price
	}
	return x.Zone != l.Chosen.Zone && slices.Contains(p.Subnets, x.ID) && x.Free+x.Scattered >= need &&
		!slices.ContainsFunc(s.Subnets, enough) && slices.ContainsFunc(t.Offerings, cheap)
}

// choosesZone reports whether any of the pods may be bound to a zone, by what it requires or prefers or by other pods.
func choosesZone(s *model.Snapshot, pods []model.PodKey) bool {
	named := func(rs model.Requirements) bool {
		_, ok := rs.Get(model.LabelZone)
		return ok
	}
	preferred := func(p model.Preference) bool { return named(p.Terms) }
	apart := func(t model.PodTerm) bool { return t.Topology == model.LabelZone }
	spread := func(c model.Spread) bool { return c.Hard && c.Topology == model.LabelZone }
	return slices.ContainsFunc(s.Pending, func(p model.Pod) bool {
		x := &s.Shapes[p.Shape]
		return slices.Contains(pods, p.PodKey) && (named(x.Required) || slices.ContainsFunc(x.AnyOf, named) ||
			slices.ContainsFunc(x.Preferred, preferred) || slices.ContainsFunc(x.AntiAffinity, apart) ||
			slices.ContainsFunc(x.Spread, spread) || len(x.Affinity)+len(x.Volumes) > 0)
	})
}
