package region

import (
	"slices"
	"time"
)

// Interrupt announces the end of a spot instance: a notice on every queue now, the shutdown two minutes later.
func (s *instances) Interrupt(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.byID[id]
	switch {
	case i == nil:
		return noInstance(id)
	case i.CapacityType != Spot:
		return apiError("InvalidParameterValue", "Instance %s is not a spot instance: EC2 interrupts spot instances alone",
			id)
	case !i.active():
		return apiError("IncorrectInstanceState", "Instance %s is %s", id, i.State)
	}
	if i.InterruptAt.IsZero() {
		s.announce(i, s.clock.Now())
		s.arm(i)
	}
	return s.commit()
}

// Rebalance sends the recommendation that a spot instance may be interrupted soon.
func (s *instances) Rebalance(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.byID[id]
	if i == nil || i.CapacityType != Spot {
		return apiError("InvalidInstanceID.NotFound", "There is no spot instance '%s'", id)
	}
	s.notifyRebalance(i)
	return s.commit()
}

// Impairment is what EC2's status checks and maintenance plans say about an instance; zero means that all is well.
type Impairment struct {
	InstanceSince time.Time // since when the instance's own check fails; zero if it does not
	SystemSince   time.Time // since when the check of its host fails; zero if it does not
	Event         string    // code of planned maintenance, such as instance-retirement; "" if none is planned
	EventAt       time.Time
}

// EventCodes are the kinds of maintenance that EC2 plans.
var EventCodes = []string{
	"instance-reboot", "instance-retirement", "instance-stop", "system-maintenance", "system-reboot",
}

const (
	eventNotice = 14 * 24 * time.Hour  // how long before planned maintenance EC2 announces it, at least
	maxAgo      = 365 * 24 * time.Hour // longer than any instance of the simulation has existed
)

// Impair makes a check of an instance fail since a time ago, or plans maintenance of it. check is "instance", "system"
// or one of EventCodes.
func (s *instances) Impair(id, check string, ago time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, now := s.byID[id], s.clock.Now()
	switch {
	case i == nil:
		return noInstance(id)
	case !i.active():
		return apiError("IncorrectInstanceState", "Instance %s is %s", id, i.State)
	case ago < 0 || ago > maxAgo:
		return apiError("InvalidParameterValue", "since %s ago: give a time from 0 to %s ago", ago, maxAgo)
	case check == "instance":
		i.Impairment.InstanceSince = now.Add(-ago)
	case check == "system":
		i.Impairment.SystemSince = now.Add(-ago)
	case slices.Contains(EventCodes, check):
		i.Impairment.Event, i.Impairment.EventAt = check, now.Add(eventNotice)
	default:
		return apiError("InvalidParameterValue", "check %q: name instance, system or one of %v", check, EventCodes)
	}
	s.save(i)
	return s.commit()
}
