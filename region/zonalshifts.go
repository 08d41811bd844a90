package region

import (
	"cmp"
	"slices"
	"time"

	"github.com/nodeless/nodeless/catalog"
)

// mostShift is the maximum duration of a zonal shift (ARC developer guide, "Zonal shift").
const mostShift = 72 * time.Hour

// States of a zonal shift.
const (
	ShiftActive   = "ACTIVE"
	ShiftExpired  = "EXPIRED"
	ShiftCanceled = "CANCELED"
)

// ZonalShift shifts the traffic of a resource away from a zone for a time (Amazon Application Recovery Controller).
type ZonalShift struct {
	ID       string
	Resource string // its ARN
	AwayFrom string // ID of the zone
	Comment  string
	Start    time.Time
	Expiry   time.Time
	Canceled bool `json:",omitempty"`
}

// Status returns the shift's state at a time.
func (z ZonalShift) Status(now time.Time) string {
	switch {
	case z.Canceled:
		return ShiftCanceled
	case !now.Before(z.Expiry):
		return ShiftExpired
	}
	return ShiftActive
}

// zonalShifts holds the zonal shifts, including those that have ended.
type zonalShifts struct {
	*core
	market *market
	byID   map[string]*ZonalShift
}

func newZonalShifts(c *core, m *market) *zonalShifts {
	return &zonalShifts{core: c, market: m, byID: map[string]*ZonalShift{}}
}

// StartZonalShift shifts the traffic of a resource away from a zone for a time. A resource has at most one active
// shift.
func (s *zonalShifts) StartZonalShift(resource, zoneID, comment string, lasts time.Duration) (ZonalShift, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !slices.ContainsFunc(s.market.Zones(), func(z catalog.Zone) bool { return z.ID == zoneID }):
		return ZonalShift{}, apiError("ValidationException",
			"awayFrom is %q: give the ID of a zone of this region, such as %s", zoneID, s.market.Zones()[0].ID)
	case lasts < time.Minute || lasts > mostShift:
		return ZonalShift{}, apiError("ValidationException", "expiresIn: give from 1m to 72h")
	}
	now := s.clock.Now()
	for _, z := range s.byID {
		if z.Resource == resource && z.Status(now) == ShiftActive {
			return ZonalShift{}, apiError("ConflictException", "Resource %s has the zonal shift %s already", resource, z.ID)
		}
	}
	z := &ZonalShift{
		ID: s.newID(), Resource: resource, AwayFrom: zoneID, Comment: comment, Start: now, Expiry: now.Add(lasts),
	}
	s.byID[z.ID] = z
	s.store.put(bucketZonalShifts, z.ID, z)
	return *z, s.commit()
}

// CancelZonalShift ends an active shift.
func (s *zonalShifts) CancelZonalShift(id string) (ZonalShift, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	z := s.byID[id]
	switch {
	case z == nil:
		return ZonalShift{}, apiError("ResourceNotFoundException", "There is no zonal shift %s", id)
	case z.Status(s.clock.Now()) != ShiftActive:
		return ZonalShift{}, apiError("ConflictException", "Zonal shift %s is %s", id, z.Status(s.clock.Now()))
	}
	z.Canceled = true
	s.store.put(bucketZonalShifts, id, z)
	return *z, s.commit()
}

// ZonalShifts returns all shifts, newest first.
func (s *zonalShifts) ZonalShifts() []ZonalShift {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []ZonalShift{}
	for _, z := range s.byID {
		out = append(out, *z)
	}
	slices.SortFunc(out, func(a, b ZonalShift) int { return cmp.Or(b.Start.Compare(a.Start), cmp.Compare(a.ID, b.ID)) })
	return out
}
