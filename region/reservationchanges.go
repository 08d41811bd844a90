package region

import "time"

// CapacityReservationChange holds the parameters of ModifyCapacityReservation. Zero fields stay unchanged.
type CapacityReservationChange struct {
	Count     int
	EndAt     time.Time
	Unlimited bool // removes the end
	Match     string
}

// ModifyCapacityReservation changes the size, end or match criteria of an active reservation.
func (s *capacityReservations) ModifyCapacityReservation(id string, c CapacityReservationChange) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, failure := s.changeable(id)
	if failure != nil {
		return failure
	}
	if c.Count != 0 || !c.EndAt.IsZero() {
		count := c.Count
		if count == 0 {
			count = r.Total
		}
		if failure := s.checkSize(count, c.EndAt); failure != nil {
			return failure
		}
	}
	if c.Match != "" && c.Match != r.Match && r.used > 0 {
		return apiError("IncorrectState", "Capacity Reservation '%s' is in use by %d instances: its instance match criteria "+
			"can change once it is idle", id, r.used)
	}
	if failure := s.resize(r, c.Count); failure != nil {
		return failure
	}
	if c.Match != "" {
		r.Match = c.Match
	}
	if c.Unlimited || !c.EndAt.IsZero() {
		r.EndAt = c.EndAt
	}
	s.adopt(r)
	s.save(r)
	s.arm(r)
	return s.commit()
}

// changeable finds a reservation that may be changed or cancelled. Capacity Blocks may not (EC2 API reference,
// CancelCapacityReservation).
func (s *capacityReservations) changeable(id string) (*capacityReservation, *APIError) {
	r := s.byID[id]
	switch {
	case r == nil:
		return nil, noCapacityReservation(id)
	case r.State != ReservationActive:
		return nil, apiError("IncorrectState", "Capacity Reservation '%s' is %s", id, r.State)
	case r.ReservationType == CapacityBlock:
		return nil, apiError("OperationNotPermitted", "Capacity Block '%s' cannot be modified or cancelled", id)
	}
	return r, nil
}

// resize changes a reservation's size to count instances; 0 leaves it unchanged.
func (s *capacityReservations) resize(r *capacityReservation, count int) *APIError {
	switch {
	case count == 0 || count == r.Total:
		return nil
	case count < r.used:
		return apiError("InvalidParameterValue", "Value (%d) for parameter instanceCount is invalid: %d instances run in "+
			"Capacity Reservation '%s'", count, r.used, r.ID)
	case count < r.Total:
		s.market.pool(r.pool()).held -= r.Total - count
	default:
		if failure := s.reserve(r, count-r.Total); failure != nil {
			return failure
		}
	}
	r.Total = count
	return nil
}

// CancelCapacityReservation ends a reservation. Its instances continue as on-demand instances.
func (s *capacityReservations) CancelCapacityReservation(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, failure := s.changeable(id)
	if failure != nil {
		return failure
	}
	s.end(r, ReservationCancelled, s.clock.Now())
	return s.commit()
}

func noCapacityReservation(id string) *APIError {
	return apiError("InvalidCapacityReservationId.NotFound", "The capacity reservation '%s' does not exist", id)
}
