package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/gen"
)

// withReservations gives the pools of a random cluster capacity reservations, some of them shared.
func withReservations(s *model.Snapshot, seed uint64) *model.Snapshot {
	r := rand.New(rand.NewPCG(seed, 11))
	var all []model.Reservation
	for i := range s.Pools {
		for range min(r.IntN(3), len(s.Pools[i].Types)) {
			t := &s.Pools[i].Types[r.IntN(len(s.Pools[i].Types))]
			if len(t.Offerings) == 0 {
				continue
			}
			id := fmt.Sprintf("cr-%d", len(all))
			all = append(all, model.Reservation{
				ID: id, Type: t.Name, Zone: t.Offerings[r.IntN(len(t.Offerings))].Zone, Free: r.Int64N(4),
				Price: model.Price(r.Int64N(1000)), Labels: model.NewRequirements(model.OneOf("reservation", id)),
			})
		}
	}
	out := *s
	out.Pools = slices.Clone(s.Pools)
	for i := range out.Pools {
		p := &out.Pools[i]
		for _, x := range all {
			if r.IntN(4) > 0 {
				p.Reservations = append(p.Reservations, x)
			}
		}
		p.Types = model.WithReserved(p.Types, p.Reservations)
		if kind, ok := p.Requirements.Get(model.LabelCapacityType); ok && r.IntN(2) > 0 {
			p.Requirements = p.Requirements.Without(model.LabelCapacityType).And(model.Requirements{
				model.OneOf(model.LabelCapacityType, append([]string{model.Reserved}, kind.Values...)...),
			})
		}
	}
	return model.Canonical(&out)
}

// No plan takes more of a reservation than is free, whatever else it decides; free capacity is used.
func TestReservationsAreUsedAndNotOverdrawn(t *testing.T) {
	reserved, bought := 0, 0
	for seed := range uint64(1200) {
		s, policy := withReservations(gen.Random(seed), seed), model.Policy{}
		if seed%3 == 0 {
			s, policy = withReservations(gen.Disruptive(seed), seed), gen.DisruptionPolicy(seed)
		}
		if seed%3 == 1 {
			s = withReservations(gen.Constrained(seed), seed)
		}
		if seed%5 == 0 {
			s = withSubnets(s, seed)
		}
		if seed%4 == 1 {
			policy.HasPriorityCutoff, policy.PriorityCutoff = true, int32(seed%2000)
		}
		judge(t, seed, s, policy)
		if t.Failed() {
			return
		}
		for _, l := range engine.Provision(s, policy).Launches {
			if l.Chosen.CapacityType == model.Reserved {
				reserved++
			} else {
				bought++
			}
		}
	}
	if reserved < 100 || bought < 300 {
		t.Errorf("%d launches from reservations, %d others: too few to tell", reserved, bought)
	}
}
