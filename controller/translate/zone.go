package translate

import (
	"fmt"
	"sync"
	"time"
	_ "time/tzdata" // a container need not have /usr/share/zoneinfo
)

// Schedules go by what a clock on the wall shows: the time that it shows is kept as if it were UTC, where every hour
// comes once. A schedule is in force whenever the clock shows a time inside of it. Where clocks are put forward, what
// would begin in the hour that is left out begins with the next; where they are put back, the hour that comes twice
// counts twice; and a night from 22:00 for eight hours ends at 06:00 in every night of the year.

var zones sync.Map // *time.Location by name

// zoneOf is the time zone of an IANA name, UTC for "".
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

// wall is what a clock on the wall of the zone shows at the instant, as if it were UTC.
func wall(at time.Time, zone *time.Location) time.Time {
	at = at.In(zone)
	_, offset := at.Zone()
	return at.UTC().Add(time.Duration(offset) * time.Second)
}

// instant is when the clock on the wall next shows that time or a later one, not before the instant now; zero for the
// zero time.
func instant(shown time.Time, zone *time.Location, now time.Time) time.Time {
	if shown.IsZero() {
		return time.Time{}
	}
	const day = 24 * time.Hour
	var last time.Time // of the two that it may be
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
	if next.IsZero() { // the clock never shows it: it is put forward across it
		next, _ = last.In(zone).ZoneBounds()
		if next.Before(now) {
			next = now
		}
	}
	return next.UTC()
}

// turned is when the clock on the wall is next put forward or back, zero if never.
func turned(zone *time.Location, now time.Time) time.Time {
	_, end := now.In(zone).ZoneBounds()
	return end.UTC()
}
