package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/gen"
)

// withSubnets gives a random cluster nearly exhausted subnets, and types that take several addresses at once. In some
// clusters part of the free addresses are scattered, and only some of the types can use these.
func withSubnets(s *model.Snapshot, seed uint64) *model.Snapshot {
	r, scatter := rand.New(rand.NewPCG(seed, 7)), rand.New(rand.NewPCG(seed, 11))
	scattered := seed%2 == 0
	out := *s
	var zones []string
	out.Pools = slices.Clone(s.Pools)
	for i := range out.Pools {
		p := &out.Pools[i]
		p.Types = slices.Clone(p.Types)
		for k := range p.Types {
			p.Types[k].SingleAddresses = scattered && scatter.IntN(2) == 0
			each := 2 + r.Int64N(14)
			for enis := range 1 + r.Int64N(4) {
				p.Types[k].Addresses = append(p.Types[k].Addresses,
					model.AddressStep{Pods: (enis + 1) * (each - 1), Addresses: (enis + 2) * each})
			}
			for _, o := range p.Types[k].Offerings {
				zones = append(zones, o.Zone)
			}
		}
	}
	slices.Sort(zones)
	for _, zone := range slices.Compact(zones) {
		for n := range 1 + r.IntN(2) {
			s := model.Subnet{ID: fmt.Sprintf("%s-%d", zone, n), Zone: zone, Free: r.Int64N(80)}
			if scattered {
				s.Scattered = scatter.Int64N(s.Free + 1)
				s.Free -= s.Scattered
			}
			out.Subnets = append(out.Subnets, s)
		}
	}
	slices.SortFunc(out.Subnets, func(a, b model.Subnet) int { return strings.Compare(a.ID, b.ID) })
	for i := range out.Pools {
		if r.IntN(4) == 0 {
			continue // its subnets are unknown
		}
		out.Pools[i].Subnets = []string{}
		for _, x := range out.Subnets {
			if r.IntN(5) > 0 {
				out.Pools[i].Subnets = append(out.Pools[i].Subnets, x.ID)
			}
		}
	}
	return model.Canonical(&out)
}

// No plan exhausts a subnet, whichever types and zones its launches get, and every pod that waits for addresses has
// that as its reason.
func TestNoPlanStarvesASubnet(t *testing.T) {
	waits, launched := 0, 0
	for seed := range uint64(1500) {
		s, policy := withSubnets(gen.Random(seed), seed), model.Policy{}
		if seed%3 == 0 {
			s, policy = withSubnets(gen.Disruptive(seed), seed), gen.DisruptionPolicy(seed)
		}
		judge(t, seed, s, policy)
		if t.Failed() {
			return
		}
		plan := engine.Provision(s, policy)
		launched += len(plan.Launches)
		for _, u := range plan.Unplaced {
			if u.Reason.Rule == model.RuleAddresses {
				waits++
			}
		}
	}
	if waits < 100 || launched < 300 {
		t.Errorf("only %d pods wait for addresses, %d launches", waits, launched)
	}
}

// Pods that prefer a zone get nodes in another one once the zone's subnet has too few addresses for one more. There are
// too many of them for a second solve.
func TestPreferredZoneWithoutAddressesStopsNoLaunch(t *testing.T) {
	s, policy := clusterOf(t, `
subnet s-a zone=a free=200
subnet s-b zone=b free=9000
type m cpu=2 memory=8Gi pods=29 addresses(9=20, 27=30) offers(a on-demand 0.1, b on-demand 0.1)
pool p
pods 250 web cpu=1500m ports(8080) prefer(50 zone=a)
`)
	plan := engine.Provision(s, policy)
	zones := map[string]int{}
	for i := range plan.Launches {
		zones[plan.Launches[i].Chosen.Zone]++
	}
	if len(plan.Unplaced) > 0 || zones["a"] != 10 || zones["b"] != 240 {
		t.Errorf("launches by zone: %v, want 10 in a and 240 in b; %d pods wait", zones, len(plan.Unplaced))
	}
}
