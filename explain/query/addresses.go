package query

import (
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// ZoneAddresses says from which subnet the next node of a pool in a zone takes its addresses.
type ZoneAddresses struct {
	Zone, Subnet string
	Free         int64  // free addresses of the subnet that nodes of Type can get
	Type         string // of the types that the pool allows in the zone, the one that takes the fewest for one pod
	Least        int64  // how many addresses that type takes
}

// AddressesOf returns, for each zone in which a pool of the snapshot may launch, where its next node takes its
// addresses. It returns nil if addresses do not limit the pool, and leaves out zones without an allowed type.
func AddressesOf(s *model.Snapshot, policy model.Policy, p *model.Pool) (out []ZoneAddresses) {
	if p.Subnets == nil {
		return nil
	}
	v := poolView(s, &policy, p)
	for z, zone := range v.Zones {
		i := rules.MostFree(p, zone, s.Subnets)
		if i < 0 {
			continue
		}
		a := ZoneAddresses{Zone: zone, Subnet: s.Subnets[i].ID}
		for t := range p.Types {
			if least := v.LeastAddresses(t); least > 0 && (a.Least == 0 || least < a.Least) && offersIn(v, t, z) {
				a.Type, a.Least, a.Free = p.Types[t].Name, least, s.Subnets[i].FreeFor(&p.Types[t])
			}
		}
		if a.Least > 0 {
			out = append(out, a)
		}
	}
	return out
}

// offersIn reports whether the pool allows a type in a zone, with or without capacity.
func offersIn(v *rules.View, t, zone int) bool {
	if !v.Eligible.Has(t) {
		return false
	}
	for i := range v.Offers[t] {
		if v.Offers[t][i].Zone == zone {
			return true
		}
	}
	return false
}
