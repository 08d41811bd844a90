package cycle

import (
	"cmp"
	"context"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
)

const (
	// resync is the longest time between two cycles: budgets open and close by the clock.
	resync = 10 * time.Second
	// retry is the delay of the next cycle after an API error.
	retry = time.Second
)

// Run makes cycles until ctx is done, then returns nil.
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
			l.change()
		case <-l.alarm:
			if !l.wake().After(o.Clock.Now()) {
				l.cycle(ctx)
			}
		}
	}
}

// recall tries until all NodeClaims of a former leader are known, and reports whether they are: a plan that misses
// some would exceed the limits of their pools.
func recall(ctx context.Context, o Options) bool {
	for {
		err := o.Recall(ctx)
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		o.Log.Warn("cannot list NodeClaims, without which nothing is decided; trying again", "in", retry, "error", err)
		if clock.Sleep(ctx, o.Clock, retry) != nil {
			return false
		}
	}
}

// loop is the state of a Run.
type loop struct {
	o      Options
	pace   Pace
	next   time.Time // when a cycle is due even if nothing changes
	alarm  chan struct{}
	timer  clock.Timer
	driver *Driver
	seen   uint64 // of State.Workloads
}

func (l *loop) change() {
	now := l.o.Clock.Now()
	l.pace.Change(now)
	if seen := l.o.State.Workloads(); seen != l.seen {
		l.seen = seen
		l.pace.Workload(now)
	}
}

// wake returns when the next cycle is due: soon after a change, and no later than the last cycle requested, unless
// further controllers are waited for.
func (l *loop) wake() time.Time {
	if at, changed := l.pace.Due(); changed && (at.Before(l.next) || l.pace.gathering()) {
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

// cycle decides and applies three times: first for pods, since they wait; then for the commands in progress; then for
// disruption, which sees the results for the pods.
func (l *loop) cycle(ctx context.Context) {
	l.o.Progress()
	defer l.o.Progress()
	l.pace.Settled()
	select { // changes up to here are in the snapshot
	case <-l.o.State.Changed():
	default:
	}
	l.seen = l.o.State.Workloads()
	d := l.driver.Provision(ctx)
	due := Sooner(d.Plan.RecheckAt, l.driver.Advance(ctx, &d))
	due = Sooner(due, l.driver.Disrupt(ctx, &d))
	l.next = d.Next(due, l.o.Clock.Now())
	if l.o.OnDecision != nil {
		l.o.OnDecision(d)
	}
}

// Next returns when the next cycle is due even if nothing changes. due is when a decision may come out differently,
// zero if only changes can cause that.
func (d *Decision) Next(due, now time.Time) time.Time {
	switch {
	case len(d.Result.Errors) > 0: // whatever is due: each cycle would retry what has just failed
		return now.Add(retry)
	case d.Result.Again:
		return now
	}
	return later(Sooner(due, now.Add(resync)), now)
}

// How long changes are batched before a cycle. The requests of one `kubectl apply` are 20 to 100 ms apart. Waiting for
// further controllers costs little: an EC2 instance takes 40 s to become a node.
const (
	minQuiet  = 10 * time.Millisecond  // after a single change
	maxQuiet  = 60 * time.Millisecond  // while changes keep coming
	maxWait   = 300 * time.Millisecond // after the first change, however many follow
	minGather = 200 * time.Millisecond // after a controller began to want pods
	maxGather = time.Second            // after the first of several controllers did
)

// Pace batches changes and says when the next cycle is due. The zero value has no changes.
type Pace struct {
	// Idle and Max replace the quiet period after a change and the longest wait; 0 = the defaults.
	Idle, Max time.Duration

	first, last time.Time
	waiting     bool

	firstWorkload, lastWorkload time.Time // zero = none
}

// Change records a change.
func (p *Pace) Change(now time.Time) {
	if !p.waiting {
		p.waiting, p.first = true, now
	}
	p.last = now
}

// Workload records that a controller began to want pods.
func (p *Pace) Workload(now time.Time) {
	if p.lastWorkload = now; p.firstWorkload.IsZero() {
		p.firstWorkload = now
	}
}

func (p *Pace) gathering() bool { return !p.firstWorkload.IsZero() && p.Idle == 0 && p.Max == 0 }

// Due returns when the next cycle is due, and whether anything has changed. It waits for a quiet period of a third of
// the time over which changes have been arriving, so that a single pod is answered at once and a thousand with few
// plans. Controllers seldom want pods alone, since manifests hold several: the pods of one wait for the next.
func (p *Pace) Due() (time.Time, bool) {
	if !p.waiting {
		return time.Time{}, false
	}
	quiet := min(max(p.last.Sub(p.first)/3, minQuiet), maxQuiet)
	at := Sooner(p.last.Add(cmp.Or(p.Idle, quiet)), p.first.Add(cmp.Or(p.Max, maxWait)))
	if p.gathering() {
		at = later(at, Sooner(p.lastWorkload.Add(minGather), p.firstWorkload.Add(maxGather)))
	}
	return at, true
}

// Settled forgets the changes when a cycle begins.
func (p *Pace) Settled() { *p = Pace{Idle: p.Idle, Max: p.Max} }
