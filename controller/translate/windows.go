package translate

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// leastWindow is the shortest disruption window: towards its end nothing is begun that would be ready too late.
const leastWindow = 10 * time.Minute

// schedule is a time that comes again and again, and how long it is in force then.
type schedule struct {
	cron     cron.Schedule
	duration time.Duration
}

// readSchedule reads five cron fields or a macro such as @daily.
func readSchedule(text string, duration time.Duration) (schedule, error) {
	if strings.HasPrefix(text, "@every") {
		return schedule{}, errors.New("@every has no time of day to go by")
	}
	c, err := cron.ParseStandard("TZ=UTC " + text) // whose clock it goes by is the caller's matter
	return schedule{c, duration}, err
}

// begun is when it last came into force, if it is in force at the time that the wall clock shows.
func (s schedule) begun(shown time.Time) (time.Time, bool) {
	at := s.cron.Next(shown.Add(-s.duration))
	return at, !at.IsZero() && !at.After(shown)
}

// turns is when it comes into force next, or out of it if it is in force.
func (s schedule) turns(shown time.Time) time.Time {
	if at, in := s.begun(shown); in {
		return at.Add(s.duration)
	}
	return s.cron.Next(shown)
}

// readWindows reads disruption windows: each a schedule and a duration, with ; between them.
func readWindows(text string) ([]schedule, error) {
	var out []schedule
	for _, one := range strings.Split(text, ";") {
		fields := strings.Fields(one)
		if len(fields) != 6 && (len(fields) != 2 || !strings.HasPrefix(fields[0], "@")) {
			return nil, fmt.Errorf("window %q is not five cron fields and a duration", strings.TrimSpace(one))
		}
		last := len(fields) - 1
		duration, err := time.ParseDuration(fields[last])
		if err != nil || duration < leastWindow {
			return nil, fmt.Errorf("window %q: duration %q is none, or shorter than %s", strings.TrimSpace(one),
				fields[last], leastWindow)
		}
		s, err := readSchedule(strings.Join(fields[:last], " "), duration)
		if err != nil {
			return nil, fmt.Errorf("window %q: %w", strings.TrimSpace(one), err)
		}
		out = append(out, s)
	}
	return out, nil
}

// mostJoined bounds how many windows that follow each other without a gap are looked at for the end of the last.
const mostJoined = 400

// inWindows reports whether one of the windows is open at what the wall clock shows, and when that changes; zero if
// it does not.
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
		if until, joined = end, joined+1; joined > mostJoined {
			return true, time.Time{}
		}
	}
	if open {
		return true, until
	}
	until = time.Time{}
	for _, w := range windows {
		// zero: a day that never comes, such as 30 February
		if at := w.cron.Next(shown); !at.IsZero() && (until.IsZero() || at.Before(until)) {
			until = at
		}
	}
	return false, until
}

// NextWindow is when next a budget of the pool begins or ends, or one of its disruption windows, or its clock is
// turned; zero if nothing of that ever does.
func NextWindow(np *karpv1.NodePool, now time.Time) time.Time {
	var next time.Time
	sooner := func(at time.Time) {
		if at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	wishes, _ := ReadWishes(np) // the pool says what cannot be read
	shown, clock := wall(now, wishes.zone), false
	for i := range np.Spec.Disruption.Budgets {
		b := &np.Spec.Disruption.Budgets[i]
		if b.Schedule == nil || b.Duration == nil {
			continue
		}
		if s, err := readSchedule(*b.Schedule, b.Duration.Duration); err == nil { // else the pool says so in NotReady
			sooner(instant(s.turns(shown), wishes.zone, now))
			clock = true
		}
	}
	if len(wishes.windows) > 0 {
		_, until := inWindows(wishes.windows, shown)
		sooner(instant(until, wishes.zone, now))
		clock = true
	}
	if clock {
		sooner(turned(wishes.zone, now))
	}
	return next
}
