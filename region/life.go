package region

import (
	"math"
	"time"
)

// step is what happens to an instance by itself.
type step int

const (
	stepNone step = iota
	stepRun
	stepFail // it ends instead
	stepBoot
	stepNotice    // a spot interruption is announced
	stepInterrupt // and comes
	stepEnd
)

// next is the instance's next step and when it is due. Steps due at the same time come in the order above.
func (i *Instance) next() (step, time.Time) {
	if i.State == ShuttingDown {
		return stepEnd, i.StoppingAt.Add(toTerminated)
	}
	first, due := stepNone, time.Time{}
	consider := func(s step, at time.Time) {
		if !at.IsZero() && (first == stepNone || at.Before(due)) {
			first, due = s, at
		}
	}
	if !i.active() {
		return first, due
	}
	if i.CannotStart {
		return stepFail, i.RunningAt
	}
	if i.State == Pending {
		consider(stepRun, i.RunningAt)
	}
	if !i.Booted {
		consider(stepBoot, i.BootAt)
	}
	if i.InterruptAt.IsZero() {
		consider(stepNotice, i.NoticeAt)
	}
	consider(stepInterrupt, i.InterruptAt)
	return first, due
}

// arm sets the timer for an instance's next step. The caller holds the lock.
func (r *Region) arm(i *Instance) {
	if t := r.timers[i.ID]; t != nil {
		t.Stop()
		delete(r.timers, i.ID)
	}
	s, at := i.next()
	if s == stepNone || r.closed {
		return
	}
	id := i.ID
	r.timers[id] = r.clock.AfterFunc(at.Sub(r.clock.Now()), func() { r.wake(id) })
}

// wake is called when an instance's next step is due.
func (r *Region) wake(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.instances[id]
	if i == nil || r.closed {
		return
	}
	r.catchUp(i)
	if err := r.commit(); err != nil {
		r.log.Error("region: state not saved", "instance", id, "error", err)
	}
}

// catchUp makes every step of an instance that is due and waits for the one after. The caller holds the lock and commits.
func (r *Region) catchUp(i *Instance) {
	for s, at := i.next(); s != stepNone && !at.After(r.clock.Now()); s, at = i.next() {
		r.advance(i, s, at)
	}
	r.arm(i)
}

// advance makes one step. Running and booting are not saved: they follow from times that are.
func (r *Region) advance(i *Instance, s step, at time.Time) {
	switch s {
	case stepRun:
		i.State = Running
		r.tell(Event{Kind: EventRunning, Instance: *i})
	case stepFail:
		r.shutDown(i, at, reasonKey, reasonKeyMsg)
	case stepBoot:
		i.Booted = true
		r.tell(Event{Kind: EventBooted, Instance: *i})
	case stepNotice:
		r.notifyRebalance(i)
		r.announce(i, at)
	case stepInterrupt:
		r.shutDown(i, at, reasonSpot, reasonSpotMsg)
	case stepEnd:
		i.State, i.TerminatedAt = Terminated, at
		r.freeAddress(i.SubnetID, i.PrivateIP)
		r.save(i)
		r.notifyState(i)
		r.tell(Event{Kind: EventTerminated, Instance: *i})
	}
}

// announce gives the two minutes' notice of a spot interruption. The caller holds the lock, arms and commits.
func (r *Region) announce(i *Instance, at time.Time) {
	i.InterruptAt = at.Add(spotNotice)
	r.save(i)
	r.notifySpot(i)
}

// shutDown begins the end of an instance: its capacity is free at once, its address when it is terminated. The caller holds
// the lock, arms and commits.
func (r *Region) shutDown(i *Instance, at time.Time, code, message string) {
	if !i.active() {
		return
	}
	i.State, i.StoppingAt, i.ReasonCode, i.ReasonMessage = ShuttingDown, at, code, message
	r.pools[i.pool()]--
	r.releasePods(i.ID)
	r.save(i)
	r.notifyState(i)
	r.tell(Event{Kind: EventShuttingDown, Instance: *i})
}

// noticeTime is when EC2 takes a spot instance back by itself: after an exponential time drawn from its id.
func (r *Region) noticeTime(id string, launched time.Time) time.Time {
	if r.c.SpotInterruptionsPerHour <= 0 {
		return time.Time{}
	}
	hours := -math.Log(1-r.chance("interrupt", id)) / r.c.SpotInterruptionsPerHour
	return launched.Add(time.Duration(min(hours, 24*365) * float64(time.Hour)))
}
