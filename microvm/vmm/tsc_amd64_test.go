package vmm

import (
	"testing"
	"time"
)

// A process that is preempted between reading the counter and the clock measures the same frequency.
func TestTheCounterIsReadWithTheClock(t *testing.T) {
	epoch := time.Unix(0, 0)
	var passed time.Duration // 1 GHz: one tick a nanosecond
	reads := 0
	counter := func() uint64 {
		if reads++; reads%4 == 1 {
			passed += 20 * time.Millisecond // other processes ran meanwhile
		}
		passed += 50 * time.Nanosecond
		return uint64(passed)
	}
	clock := func() time.Time {
		if reads < 6 {
			passed += 20 * time.Millisecond
		}
		passed += 50 * time.Nanosecond
		return epoch.Add(passed)
	}
	at, tsc := readTSCAt(counter, clock)
	if off := int64(tsc) - at.UnixNano(); off < -100 || off > 100 {
		t.Errorf("the counter is %d ns off the clock", off)
	}
}
