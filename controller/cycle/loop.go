// Package cycle decides when to decide: at once when the last plan is settled, a little later while changes keep
// coming, and when a machine's consolidateAfter falls due. What is decided is the engine's matter, doing it act's.
package cycle

import (
	"context"
	"time"

	"github.com/nodeless/nodeless/controller/apply"
	"github.com/nodeless/nodeless/engine/model"
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
	l := &loop{o: o, pace: pace{idle: o.BatchIdle, most: o.BatchMax}, alarm: make(chan struct{}, 1), logged: map[string]bool{}}
	l.turn(ctx)
	for {
		l.setAlarm()
		select {
		case <-ctx.Done():
			l.timer.Stop()
			return nil
		case <-o.World.Changed():
			l.pace.change(o.Clock.Now())
		case <-l.alarm:
			if !l.wake().After(o.Clock.Now()) {
				l.turn(ctx)
			}
		}
	}
}

// recall tries until the machines that a former leader asked for are known, and reports whether they are: a plan that knows fewer
// would launch more than the limits of their pools allow.
func recall(ctx context.Context, o Options) bool {
	for {
		err := o.Actor.Recall(ctx)
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
	pace   pace
	next   time.Time // when a plan is due even if nothing changes
	alarm  chan struct{}
	timer  clock.Timer
	logged map[string]bool
	search search
	clean  bool // no Node has a taint that an earlier version left
}

// wake is when the next plan is due: after a change, or at the latest when the last plan said.
func (l *loop) wake() time.Time {
	if at, changed := l.pace.due(); changed && at.Before(l.next) {
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

// turn decides and acts three times: pods first, since they wait; then the commands that are under way; then machines, in the
// light of what was done for the pods.
func (l *loop) turn(ctx context.Context) {
	l.o.Progress()
	defer l.o.Progress()
	l.pace.settled()
	select { // what changed up to here is in the snapshot
	case <-l.o.World.Changed():
	default:
	}
	d := l.provision(ctx)
	due := Sooner(d.Plan.RecheckAt, l.advance(ctx, &d))
	due = Sooner(due, l.disrupt(ctx, &d))
	if !l.clean {
		l.clean = l.o.Actor.RemoveFillTaints(ctx, d.Snapshot)
	}
	now := l.o.Clock.Now()
	switch {
	case len(d.Result.Errors) > 0: // whatever is due: each turn would try again what has just failed
		l.next = now.Add(retry)
	case d.Result.Again:
		l.next = now
	default:
		l.next = later(Sooner(due, now.Add(resync)), now)
	}
	if l.o.OnDecision != nil {
		l.o.OnDecision(d)
	}
}

// provision answers the pods that wait.
func (l *loop) provision(ctx context.Context) Decision {
	s := l.o.World.Snapshot()
	plan, v := l.judged(s, "Provision", l.o.Policy, l.o.Provision, l.o.answered)
	d := Decision{
		At: s.Now, Pending: waiting(s), Nodes: len(s.Nodes), Snapshot: s, Plan: plan, Bad: v.wrong, Unproven: v.unproven,
		Took: l.o.Clock.Now().Sub(s.Now),
	}
	if len(v.wrong) == 0 {
		d.Result = l.o.Actor.Apply(ctx, s, plan)
		var promised map[model.PodKey]string
		if l.o.Promise {
			promised = plan.PendingClaims(s, d.Result.Claims)
		}
		l.o.World.Nominate(plan.NominatedNodes(s), promised)
		d.Plan = l.explain(s, plan)
		l.o.Actor.Report(s, d.Plan, d.Result.Claims)
	}
	return d
}

// waiting counts the pods that have no place: neither those that have to leave one nor those that stand for room.
func waiting(s *model.Snapshot) int {
	n := 0
	for i := range s.Pending {
		if p := &s.Pending[i]; p.From == "" && !p.Virtual {
			n++
		}
	}
	return n
}

// advance carries on with the commands that are under way, adds what was done to the decision, and says when a command that
// waits for its replacements has waited enough.
func (l *loop) advance(ctx context.Context, d *Decision) time.Time {
	s := l.o.World.Snapshot()
	r, due := l.o.Actor.Advance(ctx, s, func(s *model.Snapshot, c model.Command) model.Reason {
		return l.o.StillTrue(s, l.o.Policy, c)
	})
	d.Result.Add(r)
	return due
}

// disrupt removes and replaces machines that are not worth their price, adds what was done to the decision, and says when the
// next one may become so.
func (l *loop) disrupt(ctx context.Context, d *Decision) time.Time {
	s := l.o.World.Snapshot()
	due, _ := NextDue(s)
	policy, look := l.search.policy(s, l.o.Policy, len(d.Result.Created) > 0)
	if !look {
		d.Plan.Kept = l.search.kept
		return Sooner(due, l.search.due(s.Now))
	}
	plan, v := l.judged(s, "Disrupt", policy, l.o.Disrupt, nil)
	known := l.o.Clock.Now()
	d.Weighed = known.Sub(s.Now)
	d.Bad, d.Unproven = append(d.Bad, v.wrong...), append(d.Unproven, v.unproven...)
	d.Plan.Removals, d.Plan.Commands, d.Plan.Kept = plan.Removals, plan.Commands, plan.Kept
	var r apply.Result
	if len(plan.Removals)+len(plan.Commands)+len(plan.Kept) > 0 {
		r = l.o.Actor.Apply(ctx, s, model.Plan{Removals: plan.Removals, Commands: plan.Commands, Kept: plan.Kept})
		d.Result.Add(r)
	}
	l.search.looked(s, &plan, known, len(v.wrong)+len(r.Refused)+len(r.Errors) == 0)
	d.Plan.Kept = l.search.kept
	return Sooner(due, l.search.due(s.Now))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Sooner is the earlier of two times of which the zero one is never.
func Sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
