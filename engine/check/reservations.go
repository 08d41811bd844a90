package check

import (
	"maps"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// reserved returns the reservation that provides the option to the launch, nil if none does.
func (w *option) reserved(l *model.Launch, p *model.Pool) *model.Reservation {
	if w.offer.CapacityType != model.Reserved {
		return nil
	}
	for i := range p.Reservations {
		if r := &p.Reservations[i]; r.Type == w.kind.Name && r.Zone == w.offer.Zone && r.Holds(l.Requirements) {
			return r
		}
	}
	return nil
}

// with returns the option with these labels instead of those that its type has.
func (w *option) with(labels model.Requirements) *option {
	out := option{kind: w.kind, offer: w.offer, labels: w.labels}
	for _, r := range labels {
		out.labels = out.labels.Without(r.Key)
	}
	out.labels = out.labels.And(labels)
	return &out
}

// reservations: all launches together take no more of a reservation than it has free.
func (j *judge) reservations() {
	taken, free := map[string]int64{}, map[string]int64{}
	for i := range j.plan.Launches {
		l := &j.plan.Launches[i]
		c := j.pools[l.Pool]
		if l.Chosen.CapacityType != model.Reserved || c == nil {
			continue
		}
		for k := range c.pool.Reservations {
			if r := &c.pool.Reservations[k]; r.Holds(l.Requirements) {
				if taken[r.ID]++; taken[r.ID] == 1 || r.Free < free[r.ID] {
					free[r.ID] = r.Free
				}
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(taken)) {
		if taken[id] > free[id] {
			j.fail("reservation", id, "%d launches, %d instances free", taken[id], free[id])
		}
	}
}
