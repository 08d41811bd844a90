package translate

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // a container need not have /usr/share/zoneinfo

	"github.com/robfig/cron/v3"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// minWindow is the shortest disruption window: near its end, nothing begins that would finish too late.
const minWindow = 10 * time.Minute

// schedule is a recurring time and how long it then stays in force.
type schedule struct {
	cron     cron.Schedule
	duration time.Duration
}

// readSchedule parses five cron fields or a macro such as @daily.
func readSchedule(text string, duration time.Duration) (schedule, error) {
	if strings.HasPrefix(text, "@every") {
		return schedule{}, errors.New("@every has no time of day to go by")
	}
	c, err := cron.ParseStandard("TZ=UTC " + text) // the caller converts time zones
	return schedule{c, duration}, err
}

// begun returns when the schedule last came into force, and whether it is in force at the wall-clock time.
func (s schedule) begun(shown time.Time) (time.Time, bool) {
	at := s.cron.Next(shown.Add(-s.duration))
	return at, !at.IsZero() && !at.After(shown)
}

// turns returns when the schedule next comes into force, or ends if it is in force.
func (s schedule) turns(shown time.Time) time.Time {
	if at, in := s.begun(shown); in {
		return at.Add(s.duration)
	}
	return s.cron.Next(shown)
}

// readWindows parses disruption windows separated by semicolons: each a schedule and a duration.
func readWindows(text string) ([]schedule, error) {
	var out []schedule
	for _, one := range strings.Split(text, ";") {
		fields := strings.Fields(one)
		if len(fields) != 6 && (len(fields) != 2 || !strings.HasPrefix(fields[0], "@")) {
			return nil, fmt.Errorf("window %q is not five cron fields and a duration", strings.TrimSpace(one))
		}
		last := len(fields) - 1
		duration, err := time.ParseDuration(fields[last])
		if err != nil || duration < minWindow {
			return nil, fmt.Errorf("window %q: duration %q is none, or shorter than %s", strings.TrimSpace(one),
				fields[last], minWindow)
		}
		s, err := readSchedule(strings.Join(fields[:last], " "), duration)
		if err != nil {
			return nil, fmt.Errorf("window %q: %w", strings.TrimSpace(one), err)
		}
		out = append(out, s)
	}
	return out, nil
}

// maxJoined limits how many adjoining windows are followed to find the end of the last.
const maxJoined = 400

// inWindows reports whether one of the windows is open at the wall-clock time, and when that changes; zero if never.
func inWindows(windows []schedule, shown time.Time) (open bool, until time.Time) {
	joined := 0
	for until = shown; ; open = true {
		end := until
		for _, w := range windows {
			if at, in := w.begun(until); in && at.Add(w.duration).After(end) {
				end = at.Add(w.duration)
			}
		}
		if end.Equal(until) {
			break
		}
		if until, joined = end, joined+1; joined > maxJoined {
			return true, time.Time{}
		}
	}
	if open {
		return true, until
	}
	until = time.Time{}
	for _, w := range windows {
		// zero for a day that never comes, such as 30 February
		if at := w.cron.Next(shown); !at.IsZero() && (until.IsZero() || at.Before(until)) {
			until = at
		}
	}
	return false, until
}

// NextWindow returns when the next budget or disruption window of the pool begins or ends, or when its clock changes
// for daylight saving; zero if never.
func NextWindow(np *karpv1.NodePool, now time.Time) time.Time {
	var next time.Time
	sooner := func(at time.Time) {
		if at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	annotations, _ := ReadDisruptionAnnotations(np) // the pool reports what cannot be read
	shown, clock := wall(now, annotations.zone), false
	for i := range np.Spec.Disruption.Budgets {
		b := &np.Spec.Disruption.Budgets[i]
		if b.Schedule == nil || b.Duration == nil {
			continue
		}
		if s, err := readSchedule(*b.Schedule, b.Duration.Duration); err == nil { // otherwise NotReady says so
			sooner(instant(s.turns(shown), annotations.zone, now))
			clock = true
		}
	}
	if len(annotations.windows) > 0 {
		_, until := inWindows(annotations.windows, shown)
		sooner(instant(until, annotations.zone, now))
		clock = true
	}
	if clock {
		sooner(turned(annotations.zone, now))
	}
	return next
}

// Schedules follow the wall clock of a time zone. Wall-clock times are kept as if they were UTC, where every hour
// occurs once. A schedule is in force whenever the clock shows a time within it. When clocks go forward, what would
// begin in the skipped hour begins with the next; when they go back, the repeated hour counts twice. A window of
// eight hours from 22:00 ends at 06:00 every day of the year.

var zones sync.Map // *time.Location by name

// zoneOf returns the time zone of an IANA name, UTC for "".
func zoneOf(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	if zone, known := zones.Load(name); known {
		return zone.(*time.Location), nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, fmt.Errorf("time zone %q is not known; write an IANA name, such as Europe/Berlin", name)
	}
	zones.Store(name, zone)
	return zone, nil
}

// wall returns the wall-clock time of the zone at an instant, as if it were UTC.
func wall(at time.Time, zone *time.Location) time.Time {
	at = at.In(zone)
	_, offset := at.Zone()
	return at.UTC().Add(time.Duration(offset) * time.Second)
}

// instant returns when the wall clock next shows the given time or a later one, not before now; zero for the zero
// time.
func instant(shown time.Time, zone *time.Location, now time.Time) time.Time {
	if shown.IsZero() {
		return time.Time{}
	}
	const day = 24 * time.Hour
	var last time.Time // the later candidate
	var next time.Time
	for _, near := range []time.Time{shown.Add(-day), shown.Add(day)} {
		_, offset := near.In(zone).Zone()
		at := shown.Add(-time.Duration(offset) * time.Second)
		if wall(at, zone).Equal(shown) && !at.Before(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
		if at.After(last) {
			last = at
		}
	}
	if next.IsZero() { // the clock skips it
		next, _ = last.In(zone).ZoneBounds()
		if next.Before(now) {
			next = now
		}
	}
	return next.UTC()
}

// turned returns when the wall clock next goes forward or back, zero if never.
func turned(zone *time.Location, now time.Time) time.Time {
	_, end := now.In(zone).ZoneBounds()
	return end.UTC()
}
