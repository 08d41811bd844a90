package check

import (
	"maps"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// addresses: in every zone where the launches may go, and with every type that they may get, the subnets have the
// addresses that the nodes take: all together and, where some are scattered, those that need free blocks. Launches of
// one list count together.
func (j *judge) addresses(launches []model.Launch) {
	if slices.ContainsFunc(j.s.Subnets, func(s model.Subnet) bool { return s.Scattered > 0 }) {
		j.addressesOf(launches, func(t *model.InstanceType) bool { return !t.SingleAddresses },
			func(s *model.Subnet) int64 { return s.Free })
	}
	j.addressesOf(launches, func(*model.InstanceType) bool { return true },
		func(s *model.Subnet) int64 { return s.Free + s.Scattered })
}

// addressesOf judges the types that count, by what is free for them in each subnet.
func (j *judge) addressesOf(launches []model.Launch, counts func(*model.InstanceType) bool,
	freeIn func(*model.Subnet) int64,
) {
	taken, free := map[string]int64{}, map[string]map[string]int64{} // by zone; free also by subnet
	for i := range launches {
		l := &launches[i]
		c := j.pools[l.Pool]
		if c == nil || c.pool.Subnets == nil {
			continue
		}
		need := map[string]int64{} // by zone
		for k, options := range j.optionsOf(l) {
			if t := c.kind(l.Types[k]); t == nil || !counts(t.InstanceType) {
				continue
			}
			for _, w := range options {
				pods := int64(len(l.Pods)) + j.daemons(c, w)[model.Pods]
				zone := w.offer.Zone
				need[zone] = max(need[zone], c.kind(l.Types[k]).AddressesFor(pods))
			}
		}
		for zone, n := range need { // order does not matter: each zone is judged by itself
			most := int64(0)
			for k := range j.s.Subnets {
				s := &j.s.Subnets[k]
				if s.Zone == zone && slices.Contains(c.pool.Subnets, s.ID) {
					most = max(most, freeIn(s))
					if free[zone] == nil {
						free[zone] = map[string]int64{}
					}
					free[zone][s.ID] = max(freeIn(s), 0)
				}
			}
			if n > most {
				j.fail("addresses", "launch "+l.ID, "may take %d in %s, no subnet there has more than %d", n, zone, most)
			}
			taken[zone] += n
		}
	}
	for _, zone := range slices.Sorted(maps.Keys(taken)) {
		total := int64(0)
		for _, n := range free[zone] { // order does not matter: a sum
			total += n
		}
		if taken[zone] > total {
			j.fail("addresses", "zone "+zone, "launches may take %d, its subnets have %d", taken[zone], total)
		}
	}
}

// addressed: under Enforce no node is launched that may take more pods than it has addresses for.
func (j *judge) addressed(launches []model.Launch) {
	if j.policy.Preflight != model.Enforce {
		return
	}
	for i := range launches {
		l := &launches[i]
		for _, name := range l.Types {
			if c := j.pools[l.Pool]; c != nil && c.kind(name) != nil && c.kind(name).Unaddressed > 0 {
				j.fail("preflight", "launch "+l.ID, "may be %s, where %d pods would have no address", name,
					c.kind(name).Unaddressed)
			}
		}
	}
}
