// Package clock provides time to code that must also run on virtual time: the simulated region, the node simulator,
// tests.
package clock

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Clock tells the time and calls back later.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f, not before d has passed, and never with the clock's own lock held. A real clock calls f on its
	// own goroutine, a virtual one on the goroutine that advances it.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is a pending call.
type Timer interface {
	// Stop cancels the call. It returns false if the call was made or cancelled before.
	Stop() bool
}

// Real is the machine's clock.
type Real struct{}

// Now is time.Now.
func (Real) Now() time.Time { return time.Now() }

// AfterFunc is time.AfterFunc.
func (Real) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }

// Sleep waits until d has passed on the clock c, and returns nil, or until ctx is done, and returns its error.
func Sleep(ctx context.Context, c Clock, d time.Duration) error { return SleepOr(ctx, c, d, nil) }

// SleepOr is Sleep that ends early, without an error, when wake delivers or is closed.
func SleepOr(ctx context.Context, c Clock, d time.Duration, wake <-chan struct{}) error {
	due := make(chan struct{})
	timer := c.AfterFunc(d, func() { close(due) })
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-wake:
	case <-due:
	}
	return nil
}

// Virtual is a clock that moves only when told to. It is safe for concurrent use.
type Virtual struct {
	mu    sync.Mutex
	now   time.Time
	seq   int
	calls []*call // by time, then order of AfterFunc
}

type call struct {
	clock *Virtual
	at    time.Time
	seq   int
	f     func()
}

// NewVirtual returns a virtual clock set to start.
func NewVirtual(start time.Time) *Virtual { return &Virtual{now: start} }

// Now returns the time to which the clock is set.
func (v *Virtual) Now() time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.now
}

// AfterFunc calls f within the Advance that passes d from now.
func (v *Virtual) AfterFunc(d time.Duration, f func()) Timer {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seq++
	c := &call{clock: v, at: v.now.Add(max(d, 0)), seq: v.seq, f: f}
	i, _ := slices.BinarySearchFunc(v.calls, c, func(a, b *call) int {
		if n := a.at.Compare(b.at); n != 0 {
			return n
		}
		return a.seq - b.seq
	})
	v.calls = slices.Insert(v.calls, i, c)
	return c
}

// Stop cancels the call.
func (c *call) Stop() bool {
	c.clock.mu.Lock()
	defer c.clock.mu.Unlock()
	i := slices.Index(c.clock.calls, c)
	if i < 0 {
		return false
	}
	c.clock.calls = slices.Delete(c.clock.calls, i, i+1)
	return true
}

// Advance moves the clock by d and makes, in order, every call that falls due on the way, including calls added
// meanwhile.
func (v *Virtual) Advance(d time.Duration) {
	v.mu.Lock()
	end := v.now.Add(d)
	for len(v.calls) > 0 && !v.calls[0].at.After(end) {
		c := v.calls[0]
		v.calls = v.calls[1:]
		v.now = c.at
		v.mu.Unlock()
		c.f()
		v.mu.Lock()
	}
	v.now = end
	v.mu.Unlock()
}

// Next returns when the next call falls due, and whether there is one.
func (v *Virtual) Next() (time.Time, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.calls) == 0 {
		return time.Time{}, false
	}
	return v.calls[0].at, true
}
