package cycle

import (
	"context"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
)

const (
	// resync is how long nothing is decided at most: budgets open and close by the clock.
	resync = 10 * time.Second
	// retry is how long after an API error the next plan is made.
	retry = time.Second
)

// Run decides until ctx is done; it returns nil then.
func Run(ctx context.Context, o Options) error {
	o = o.defaults()
	if o.Leading != nil {
		select {
		case <-o.Leading:
		case <-ctx.Done():
			return nil
		}
	}
	if !recall(ctx, o) {
		return nil
	}
	l := &loop{o: o, driver: NewDriver(o), pace: Pace{Idle: o.BatchIdle, Max: o.BatchMax}, alarm: make(chan struct{}, 1)}
	l.cycle(ctx)
	for {
		l.setAlarm()
		select {
		case <-ctx.Done():
			l.timer.Stop()
			return nil
		case <-o.State.Changed():
			l.pace.Change(o.Clock.Now())
		case <-l.alarm:
			if !l.wake().After(o.Clock.Now()) {
				l.cycle(ctx)
			}
		}
	}
}

// recall tries until the machines that a former leader asked for are known, and reports whether they are: a plan that
// knows fewer would launch more than the limits of their pools allow.
func recall(ctx context.Context, o Options) bool {
	for {
		err := o.Recall(ctx)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		o.Log.Warn("nothing is decided before all NodeClaims are known; it is tried again", "in", retry, "error", err)
		if clock.Sleep(ctx, o.Clock, retry) != nil {
			return false
		}
	}
}

// loop is the state of a Run.
type loop struct {
	o      Options
	pace   Pace
	next   time.Time // when a plan is due even if nothing changes
	alarm  chan struct{}
	timer  clock.Timer
	driver *Driver
}

// wake is when the next plan is due: after a change, or at the latest when the last plan said.
func (l *loop) wake() time.Time {
	if at, changed := l.pace.Due(); changed && at.Before(l.next) {
		return at
	}
	return l.next
}

func (l *loop) setAlarm() {
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timer = l.o.Clock.AfterFunc(l.wake().Sub(l.o.Clock.Now()), func() {
		select {
		case l.alarm <- struct{}{}:
		default:
		}
	})
}

// cycle decides and applies three times: pods first, since they wait; then the commands under way; then disruption,
// in the light of what was done for the pods.
func (l *loop) cycle(ctx context.Context) {
	l.o.Progress()
	defer l.o.Progress()
	l.pace.Settled()
	select { // what changed up to here is in the snapshot
	case <-l.o.State.Changed():
	default:
	}
	d := l.driver.Provision(ctx)
	due := Sooner(d.Plan.RecheckAt, l.driver.Advance(ctx, &d))
	due = Sooner(due, l.driver.Disrupt(ctx, &d))
	l.next = d.Next(due, l.o.Clock.Now())
	if l.o.OnDecision != nil {
		l.o.OnDecision(d)
	}
}

// Next returns when the next cycle is to be made although nothing changes. due is when a decision may come out
// differently, zero if that depends on changes only.
func (d *Decision) Next(due, now time.Time) time.Time {
	switch {
	case len(d.Result.Errors) > 0: // whatever is due: each cycle would try again what has just failed
		return now.Add(retry)
	case d.Result.Again:
		return now
	}
	return later(Sooner(due, now.Add(resync)), now)
}
