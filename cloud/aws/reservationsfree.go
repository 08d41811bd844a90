package aws

import (
	"context"
	"slices"
	"time"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/model"
)

// reservationState is how many instances a reservation has left.
type reservationState struct {
	free  int64
	at    time.Time
	taken []time.Time // launches since
	stale bool        // an instance has ended since
}

// classReservations is the remembered state of a class.
type classReservations struct {
	read    time.Time           // when its reservations were last read
	offered []model.Reservation // what Reservations last returned
}

// class returns the remembered state of a class. The caller holds the lock.
func (s *reservations) class(class *ec2v1.EC2NodeClass) *classReservations {
	name := cloudName(class)
	if s.classes[name] == nil {
		s.classes[name] = &classReservations{}
	}
	return s.classes[name]
}

// begin records that the reservations of a class are being read.
func (s *reservations) begin(class *ec2v1.EC2NodeClass, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.class(class).read = now
}

// observe records the result of a call that began at started, unless a newer one is known.
func (s *reservations) observe(id string, free int64, started time.Time) {
	k := s.known[id]
	if k == nil {
		k = &reservationState{}
		s.known[id] = k
	}
	if started.Before(k.at) {
		return
	}
	k.free, k.at, k.stale = free, started, false
	k.taken = slices.DeleteFunc(k.taken, func(at time.Time) bool { return at.Before(started) })
}

// take counts a launch from a reservation.
func (s *reservations) take(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.known[id]; k != nil {
		k.taken = append(k.taken, s.now())
	}
}

// ended records that an instance has ended, which may have been a reserved one: the next refresh reads again.
func (s *reservations) ended() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.known {
		k.stale = true
	}
}

// full records that EC2 launches no more instances from a reservation.
func (s *reservations) full(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observe(id, 0, s.now())
}

// free returns how many more instances can be launched from a reservation. The caller holds the lock.
func (s *reservations) free(id string) int64 {
	k := s.known[id]
	if k == nil {
		return 0
	}
	return max(k.free-int64(len(k.taken)), 0)
}

// refresh reads again how many instances a class's reservations have left: at once, if the number of one is unknown
// or an instance has ended since, and in the background if the numbers are old. Resolve reads them, too.
func (s *reservations) refresh(ctx context.Context, class *ec2v1.EC2NodeClass) error {
	s.mu.Lock()
	unknown, c := false, s.class(class)
	for _, r := range class.Status.CapacityReservations {
		unknown = unknown || s.known[r.ID] == nil || s.known[r.ID].stale
	}
	old := s.now().Sub(c.read) > reservationAge
	if old {
		c.read = s.now() // so that the next caller does not read them, too
	}
	s.mu.Unlock()
	switch {
	case unknown:
		_, err := s.find(ctx, class)
		return err
	case old:
		go func() {
			if _, err := s.find(s.ctx, class); err != nil {
				s.log.Warn("free instances of capacity reservations are out of date", "error", err)
			}
		}()
	}
	return nil
}
