package region

import (
	"slices"
	"time"
)

// Interrupt announces a spot interruption: it notifies every queue now, and the instance shuts down two minutes
// later.
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

// Rebalance sends a rebalance recommendation: the spot instance may be interrupted soon.
func (s *instances) Rebalance(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.byID[id]
	if i == nil || i.CapacityType != Spot {
		return apiError("InvalidInstanceID.NotFound", "There is no spot instance '%s'", id)
	}
	s.recommendRebalance(i, s.clock.Now())
	return s.commit()
}

// Impairment holds an instance's failing EC2 status checks and planned maintenance; zero means neither.
type Impairment struct {
	InstanceSince time.Time // when the instance status check began to fail; zero if it passes
	SystemSince   time.Time // when the system status check began to fail; zero if it passes
	Event         string    // code of planned maintenance, such as instance-retirement; "" if none is planned
	EventAt       time.Time
}

// failsCheck reports whether a status check fails.
func (i Impairment) failsCheck() bool { return !i.InstanceSince.IsZero() || !i.SystemSince.IsZero() }

// EventCodes are the kinds of maintenance that EC2 plans.
var EventCodes = []string{
	"instance-reboot", "instance-retirement", "instance-stop", "system-maintenance", "system-reboot",
}

const (
	eventNotice = 14 * 24 * time.Hour  // minimum time from EC2's announcement of maintenance to its start
	maxAgo      = 365 * 24 * time.Hour // longer than any instance of the simulation has existed
)

// Impair makes a status check of an instance fail, with the failure starting ago in the past, or plans maintenance of
// the instance. check is "instance", "system" or one of EventCodes.
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
	s.changed(i)
	return s.commit()
}
