package region

import (
	"slices"
	"time"
)

// Ailment is what EC2's status checks and its plans say of an instance that does not do well; zero = it does.
type Ailment struct {
	InstanceSince time.Time // since when the check of the instance fails; zero if it does not
	SystemSince   time.Time // the same of the host below it
	Event         string    // code of the maintenance that is planned, such as instance-retirement; "" if none is
	EventAt       time.Time
}

// EventCodes are the kinds of maintenance that EC2 plans.
var EventCodes = []string{"instance-reboot", "instance-retirement", "instance-stop", "system-maintenance", "system-reboot"}

// eventNotice is how long before maintenance EC2 tells of it, as a rule at least.
const eventNotice = 14 * 24 * time.Hour

// maxAgo is more than any instance of the simulation is old.
const maxAgo = 365 * 24 * time.Hour

// Impair makes a check of an instance fail, since so long ago, or plans maintenance of it: check is instance, system or
// one of EventCodes.
func (r *Region) Impair(id, check string, ago time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, now := r.instances[id], r.clock.Now()
	switch {
	case i == nil:
		return apiError("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
	case !i.active():
		return apiError("IncorrectInstanceState", "Instance %s is %s", id, i.State)
	case ago < 0 || ago > maxAgo:
		return apiError("InvalidParameterValue", "since %s ago: give a time from 0 to %s ago", ago, maxAgo)
	case check == "instance":
		i.Ailment.InstanceSince = now.Add(-ago)
	case check == "system":
		i.Ailment.SystemSince = now.Add(-ago)
	case slices.Contains(EventCodes, check):
		i.Ailment.Event, i.Ailment.EventAt = check, now.Add(eventNotice)
	default:
		return apiError("InvalidParameterValue", "check %q: name instance, system or one of %v", check, EventCodes)
	}
	r.save(i)
	return r.commit()
}
