package region

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
)

// CapacityBlock is the type of a reservation whose instances end with it, and the capacity type of those instances.
const CapacityBlock = "capacity-block"

// DefaultReservation is the type of an On-Demand Capacity Reservation.
const DefaultReservation = "default"

// Which instances run in a capacity reservation.
const (
	MatchOpen     = "open"     // all that match its type and zone and do not opt out
	MatchTargeted = "targeted" // those that name it
)

// States of a capacity reservation.
const (
	ReservationActive    = "active"
	ReservationExpired   = "expired"
	ReservationCancelled = "cancelled"
)

// CapacityReservation is an On-Demand Capacity Reservation or a Capacity Block. Methods return copies, whose maps must
// not be changed.
type CapacityReservation struct {
	ID              string
	ReservationType string // DefaultReservation or CapacityBlock
	Type            string // of its instances
	Zone, ZoneID    string
	Match           string // MatchOpen or MatchTargeted
	State           string
	Total           int
	Available       int `json:"-"` // instances that it can still hold
	CreatedAt       time.Time
	EndAt           time.Time `json:",omitzero"` // zero means no end
	EndedAt         time.Time `json:",omitzero"`
	PriceMicros     int64     // of one instance per hour, running or not
	Tags            map[string]string
}

// capacityReservation is the record of a capacity reservation.
type capacityReservation struct {
	CapacityReservation
	used  int         // instances running in it
	timer clock.Timer // of its end; nil if it has none
}

// room returns how many more instances a reservation can hold at a time.
func (r *capacityReservation) room(now time.Time) int {
	if r.State != ReservationActive || !r.reclaimAt().IsZero() && !now.Before(r.reclaimAt()) {
		return 0
	}
	return max(r.Total-r.used, 0)
}

// capacityReservations holds the capacity reservations. An On-Demand Capacity Reservation takes its capacity from its
// on-demand pool, so others cannot use it; a Capacity Block has capacity of its own.
type capacityReservations struct {
	*core
	tokens    *tokens
	market    *market
	instances *instances

	byID map[string]*capacityReservation
}

func newCapacityReservations(k *tokens, m *market, i *instances) *capacityReservations {
	return &capacityReservations{
		core: k.core, tokens: k, market: m, instances: i, byID: map[string]*capacityReservation{},
	}
}

// CapacityReservationRequest holds the parameters of CreateCapacityReservation.
type CapacityReservationRequest struct {
	ClientToken string
	Type, Zone  string // Zone is a name or an ID
	Match       string // "" means MatchOpen
	Count       int
	EndAt       time.Time // zero means no end
	Tags        map[string]string
}

// CreateCapacityReservation reserves capacity, billed at the on-demand price from now on. Running instances that
// match an open reservation move into it. The same client token returns the same reservation again.
func (s *capacityReservations) CreateCapacityReservation(q CapacityReservationRequest) (CapacityReservation, error) {
	return s.create(q, DefaultReservation)
}

// AddCapacityBlock gives the account a Capacity Block that has already begun. On AWS it would be bought.
func (s *capacityReservations) AddCapacityBlock(q CapacityReservationRequest) (CapacityReservation, error) {
	q.Match = MatchTargeted
	if q.EndAt.IsZero() {
		return CapacityReservation{}, apiError("MissingParameter", "A Capacity Block has an end: name one")
	}
	return s.create(q, CapacityBlock)
}

func (s *capacityReservations) create(q CapacityReservationRequest, kind string) (CapacityReservation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q.Match = cmp.Or(q.Match, MatchOpen)
	id, remember, err := s.tokens.created("reservation/", q.ClientToken, q)
	if err != nil {
		return CapacityReservation{}, err
	}
	if r := s.byID[id]; r != nil {
		return s.copyOf(r), nil
	}
	r, failure := s.fromRequest(q, kind)
	if failure != nil {
		return CapacityReservation{}, failure
	}
	if failure := s.reserve(r, r.Total); failure != nil {
		return CapacityReservation{}, failure
	}
	r.ID = "cr-" + s.newID()
	s.byID[r.ID] = r
	s.adopt(r)
	s.save(r)
	s.arm(r)
	remember(r.ID)
	return s.copyOf(r), s.commit()
}

// fromRequest checks a request and returns its reservation, without an ID.
func (s *capacityReservations) fromRequest(
	q CapacityReservationRequest, kind string,
) (*capacityReservation, *APIError) {
	r := &capacityReservation{CapacityReservation: CapacityReservation{
		ReservationType: kind, Type: q.Type, Match: q.Match, State: ReservationActive, Total: q.Count,
		CreatedAt: s.clock.Now(), EndAt: q.EndAt, Tags: q.Tags,
	}}
	for _, z := range s.market.Zones() {
		if q.Zone == z.Name || q.Zone == z.ID {
			r.Zone, r.ZoneID = z.Name, z.ID
		}
	}
	offer := s.market.offerIn(q.Type, r.Zone)
	switch {
	case s.market.Type(q.Type) == nil:
		return nil, apiError("InvalidParameterValue", "Invalid value '%s' for InstanceType.", q.Type)
	case r.Zone == "":
		return nil, apiError("InvalidParameterValue", "Invalid availability zone: [%s]", q.Zone)
	case offer == nil:
		return nil, apiError("Unsupported", "Your requested instance type (%s) is not supported in your requested "+
			"Availability Zone (%s).", q.Type, r.Zone)
	case q.Match != MatchOpen && q.Match != MatchTargeted:
		return nil, apiError("InvalidParameterValue", "Value (%s) for parameter instanceMatchCriteria is invalid: use %s "+
			"or %s", q.Match, MatchOpen, MatchTargeted)
	}
	r.PriceMicros = offer.OnDemand
	return r, s.checkSize(q.Count, q.EndAt)
}

// maxReserved is the maximum number of instances of a reservation (EC2 API reference, CreateCapacityReservation).
const maxReserved = 1000

func (s *capacityReservations) checkSize(count int, end time.Time) *APIError {
	switch {
	case count < 1 || count > maxReserved:
		return apiError("InvalidParameterValue", "Value (%d) for parameter instanceCount is invalid. Expecting a value "+
			"between 1 and %d.", count, maxReserved)
	case !end.IsZero() && !end.After(s.clock.Now()):
		return apiError("InvalidParameterValue", "Value (%s) for parameter endDate is invalid: it has passed.",
			end.UTC().Format(time.RFC3339))
	}
	return nil
}

// reserve takes capacity for n more instances from the pool of a reservation that is not a Capacity Block. Running
// instances that the reservation adopts at once need no additional capacity.
func (s *capacityReservations) reserve(r *capacityReservation, n int) *APIError {
	if r.ReservationType == CapacityBlock {
		return nil
	}
	pool := r.pool()
	more := n - min(n, len(s.adoptable(r)))
	if more > 0 && s.market.free(pool) < more {
		return noCapacity(r.Type, r.Zone)
	}
	if t := s.market.Type(r.Type); more > 0 && s.market.overVCPUs(more*t.VCPU) {
		return apiError("InstanceLimitExceeded", "You have requested more vCPU capacity than your current vCPU limit of %d "+
			"allows: reserve fewer than %d instances of %s", s.config.Quotas.OnDemandVCPUs, n, r.Type)
	}
	s.market.pool(pool).held += n
	return nil
}

func (r *capacityReservation) pool() Pool {
	return Pool{Type: r.Type, Zone: r.Zone, CapacityType: OnDemand}
}

// CapacityReservations returns all capacity reservations that EC2 still shows, oldest first.
func (s *capacityReservations) CapacityReservations() []CapacityReservation {
	s.mu.Lock()
	defer s.mu.Unlock()
	shown := s.clock.Now().Add(-visibleAfter)
	out := []CapacityReservation{}
	for _, r := range s.sorted() {
		if r.State == ReservationActive || r.EndedAt.After(shown) {
			out = append(out, s.copyOf(r))
			continue
		}
		delete(s.byID, r.ID)
		s.store.remove(bucketCapacityReservations, r.ID)
	}
	s.commitBackground()
	return out
}

func (s *capacityReservations) sorted() []*capacityReservation {
	return slices.SortedFunc(maps.Values(s.byID), func(a, b *capacityReservation) int {
		return cmp.Compare(sequencePart(a.ID), sequencePart(b.ID))
	})
}

func (s *capacityReservations) copyOf(r *capacityReservation) CapacityReservation {
	c := r.CapacityReservation
	c.Available, c.Tags = r.room(s.clock.Now()), s.tagged(r.ID, r.Tags)
	return c
}

func (s *capacityReservations) save(r *capacityReservation) {
	s.store.put(bucketCapacityReservations, r.ID, r.CapacityReservation)
}

// restore restores a saved reservation. The instances running in it are restored later.
func (s *capacityReservations) restore(id string, value []byte) error {
	r := &capacityReservation{}
	if err := json.Unmarshal(value, &r.CapacityReservation); err != nil {
		return err
	}
	s.byID[id] = r
	if r.State == ReservationActive && r.ReservationType != CapacityBlock {
		s.market.pool(r.pool()).held += r.Total
	}
	return nil
}
