package region

import (
	"slices"
	"time"
)

// A launch's preferences for capacity reservations.
const (
	PreferOpen       = "open"
	PreferNone       = "none"
	ReservationsOnly = "capacity-reservations-only"
)

// ReservationChoice is a launch's choice of capacity reservations (EC2 API reference,
// CapacityReservationSpecification).
type ReservationChoice struct {
	Preference string `json:",omitempty"` // "" means PreferOpen
	Target     string `json:",omitempty"` // ID of the reservation to run in; "" = any that matches
}

// blockReclaim is how long before the end of a Capacity Block EC2 terminates its instances (EC2 user guide, "Capacity
// Blocks for ML", how they work; 60 minutes for UltraServers, which the region does not have).
const blockReclaim = 30 * time.Minute

const (
	reasonBlock    = "Server.CapacityBlockExpired"
	reasonBlockMsg = "Server.CapacityBlockExpired: Instance of a Capacity Block that ends"
)

// forLaunch returns the reservation to launch an instance in; nil for none.
func (s *capacityReservations) forLaunch(
	c ReservationChoice, typeName, zone, capacityType string,
) (*capacityReservation, *APIError) {
	target := s.byID[c.Target]
	switch {
	case c.Target != "" && target == nil:
		return nil, noCapacityReservation(c.Target)
	case c.Target == "" && capacityType == CapacityBlock:
		return nil, apiError("MissingParameter", "A launch into a Capacity Block must target it: set "+
			"CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId")
	case target != nil && (target.ReservationType == CapacityBlock) != (capacityType == CapacityBlock) ||
		target != nil && capacityType == Spot:
		return nil, apiError("InvalidParameterCombination", "Reservation '%s' is of type %s, it cannot hold %s instances: "+
			"set InstanceMarketOptions.MarketType to capacity-block for Capacity Blocks, and only for those",
			c.Target, target.ReservationType, capacityType)
	case target != nil:
		if !s.takes(target, typeName, zone) {
			return nil, reservationFull()
		}
		return target, nil
	case capacityType == Spot || c.Preference == PreferNone:
		return nil, nil
	}
	for _, r := range s.sorted() {
		if r.Match == MatchOpen && s.takes(r, typeName, zone) {
			return r, nil
		}
	}
	if c.Preference == ReservationsOnly {
		return nil, reservationFull()
	}
	return nil, nil
}

// takes reports whether a reservation can hold another instance of a type in a zone.
func (s *capacityReservations) takes(r *capacityReservation, typeName, zone string) bool {
	return r.Type == typeName && r.Zone == zone && r.room(s.clock.Now()) > 0
}

// reservationFull returns EC2's error for a reservation that is full or is for other instances.
func reservationFull() *APIError {
	return apiError("ReservationCapacityExceeded", "The requested reservation does not have sufficient compatible and "+
		"available capacity for this request.")
}

// openRoom returns how many more instances open reservations can hold.
func (s *capacityReservations) openRoom(typeName, zone string) int {
	n := 0
	for _, r := range s.byID {
		if r.Match == MatchOpen && s.takes(r, typeName, zone) {
			n += r.room(s.clock.Now())
		}
	}
	return n
}

// enter counts an active instance against its reservation or its pool.
func (s *capacityReservations) enter(i *Instance) {
	if r := s.byID[i.ReservationID]; r != nil {
		r.used++
		return
	}
	s.market.pool(i.pool()).running++
}

// leave is the opposite of enter.
func (s *capacityReservations) leave(i *Instance) {
	if r := s.byID[i.ReservationID]; r != nil {
		r.used--
		return
	}
	s.market.pool(i.pool()).running--
}

// adoptable returns the active instances that an open reservation with enough room would hold, oldest first.
func (s *capacityReservations) adoptable(r *capacityReservation) []*instance {
	if r.Match != MatchOpen {
		return nil
	}
	var out []*instance
	for _, i := range s.instances.order {
		prefersOpen := i.Reservation == ReservationChoice{} || i.Reservation == ReservationChoice{Preference: PreferOpen}
		if i.active() && i.pool() == r.pool() && i.ReservationID == "" && prefersOpen {
			out = append(out, i)
		}
	}
	return out
}

// adopt moves instances that match an open reservation into it while it has room.
func (s *capacityReservations) adopt(r *capacityReservation) {
	for _, i := range s.adoptable(r) {
		if r.room(s.clock.Now()) == 0 {
			return
		}
		s.leave(&i.Instance)
		i.ReservationID = r.ID
		s.enter(&i.Instance)
		s.instances.save(i)
	}
}

// unused returns the number of reserved instances that do not run, and their hourly price.
func (s *capacityReservations) unused() (instances int, micros int64) {
	for _, r := range s.byID {
		if r.State == ReservationActive {
			instances += r.Total - r.used
			micros += int64(r.Total-r.used) * r.PriceMicros
		}
	}
	return instances, micros
}

// reclaimAt returns when the instances of a Capacity Block are terminated; zero for other reservations.
func (r *capacityReservation) reclaimAt() time.Time {
	if r.ReservationType != CapacityBlock {
		return time.Time{}
	}
	return r.EndAt.Add(-blockReclaim)
}

// arm sets the timer of a reservation's next step.
func (s *capacityReservations) arm(r *capacityReservation) {
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
	due := r.EndAt
	if at := r.reclaimAt(); at.After(s.clock.Now()) {
		due = at
	}
	if r.State != ReservationActive || due.IsZero() || s.closed {
		return
	}
	r.timer = s.clock.AfterFunc(due.Sub(s.clock.Now()), func() { s.wake(r) })
}

func (s *capacityReservations) wake(r *capacityReservation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID[r.ID] != r || s.closed {
		return
	}
	s.catchUp(r)
	s.commitBackground("reservation", r.ID)
}

// catchUp performs the steps that are due: half an hour before the end of a Capacity Block its instances are
// terminated, and at its end a reservation expires.
func (s *capacityReservations) catchUp(r *capacityReservation) {
	now := s.clock.Now()
	if at := r.reclaimAt(); r.State == ReservationActive && !at.IsZero() && !at.After(now) {
		for _, i := range slices.Clone(s.instances.order) {
			if i.ReservationID == r.ID && i.active() {
				s.instances.shutDown(i, at, reasonBlock, reasonBlockMsg)
				s.instances.catchUp(i)
			}
		}
	}
	if r.State == ReservationActive && !r.EndAt.IsZero() && !r.EndAt.After(now) {
		s.end(r, ReservationExpired, r.EndAt)
		return
	}
	s.arm(r)
}

// end ends a reservation: its instances continue outside it, and the capacity it held is free again.
func (s *capacityReservations) end(r *capacityReservation, state string, at time.Time) {
	for _, i := range s.instances.order {
		if i.ReservationID == r.ID && i.active() {
			s.leave(&i.Instance)
			i.ReservationID = ""
			s.enter(&i.Instance)
			s.instances.save(i)
		}
	}
	if r.ReservationType != CapacityBlock {
		s.market.pool(r.pool()).held -= r.Total
	}
	r.State, r.EndedAt = state, at
	s.save(r)
	s.arm(r)
}

// resume performs the steps that fell due while the region was closed.
func (s *capacityReservations) resume() {
	for _, r := range s.sorted() {
		s.catchUp(r)
	}
}

func (s *capacityReservations) stopTimers() {
	for _, r := range s.byID {
		if r.timer != nil {
			r.timer.Stop()
		}
	}
}
