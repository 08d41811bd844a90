package sim

import (
	"fmt"
	"math"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// resync is after how long pods that got nothing are asked for again.
const resync = 10 * time.Second

// changed notes that the cluster is another.
func (r *run) changed() {
	r.snap = nil
	if next := r.tick(r.now + 1); r.passDue == 0 || next < r.passDue {
		r.passDue = next
	}
}

// tick is the first time from the given one on at which machines are looked at.
func (c *Config) tick(from time.Duration) time.Duration {
	return (from + c.Interval - 1) / c.Interval * c.Interval
}

// planSoon asks for a plan once no further pod has come for a while.
func (r *run) planSoon() {
	if r.planDue == 0 {
		r.planFirst = r.now
	}
	r.planDue = max(min(r.now+r.Decider.BatchIdle, r.planFirst+r.Decider.BatchMax), 1)
}

// provision has pods that wait, and those that have to leave their machines, get a plan.
func (r *run) provision() error {
	r.planDue = 0
	if len(r.waiting) == 0 && r.moving == 0 {
		return nil
	}
	s := r.snapshot()
	plan := r.Decider.Provision(s)
	r.plans++
	if err := r.judge(s, plan, true); err != nil {
		return err
	}
	r.nominate(&plan)
	failed := false
	on := make([]*machine, len(plan.Launches))
	for i := range plan.Launches {
		on[i] = r.launch(&plan.Launches[i], nil)
		failed = on[i] == nil || failed
	}
	if r.Decider.Nominates {
		r.promise(&plan, on)
	}
	if failed || len(plan.Unplaced) > 0 {
		r.planFirst, r.planDue = r.now, r.now+resync
		if !plan.RecheckAt.IsZero() {
			r.planDue = max(min(r.planDue, plan.RecheckAt.Sub(r.epoch)), r.now+1)
		}
		if failed {
			r.planDue = r.now + time.Second // with other types, now that some are known to have no capacity
		}
	}
	return nil
}

// nominate keeps machines on which a plan counts for a while.
func (r *run) nominate(plan *model.Plan) {
	if r.Decider.Nominated <= 0 || len(plan.Placements) == 0 {
		return
	}
	until := r.time(r.now + r.Decider.Nominated)
	for i := range plan.Placements {
		if m := r.byName(plan.Placements[i].Node); m != nil {
			m.node.NominatedUntil = until
			r.touch(m)
		}
	}
	r.changed()
}

// disrupt has machines looked at that may not be worth their price, from where the last interval's search stopped.
func (r *run) disrupt() error {
	r.passDue = 0
	again := time.Time{}
	for range r.Pieces {
		s := r.snapshot()
		plan := r.Decider.Disrupt(s, r.after)
		r.passes++
		if err := r.judge(s, plan, false); err != nil {
			return err
		}
		for i := range plan.Removals {
			if m := r.byName(plan.Removals[i].Node); m != nil && !m.node.Deleting {
				m.node.Deleting = true
				r.open(m, false)
				r.removals++
				r.evict(m)
				r.terminate(m)
			}
		}
		for _, c := range plan.Commands {
			r.begin(c, r.byName)
		}
		if !plan.RecheckAt.IsZero() && (again.IsZero() || plan.RecheckAt.Before(again)) {
			again = plan.RecheckAt
		}
		if r.after = plan.After; r.after == (model.Cursor{}) {
			break
		}
	}
	if r.after != (model.Cursor{}) && r.passDue == 0 {
		r.passDue = r.tick(r.now + 1)
	}
	r.lookAgain(again)
	return nil
}

// lookAgain says when machines must be looked at though nothing changes: when the plan says so, or a consolidateAfter
// or a nomination is over.
func (r *run) lookAgain(said time.Time) {
	if r.passDue > 0 {
		return
	}
	now := r.time(r.now)
	due := time.Duration(math.MaxInt64)
	if said.After(now) {
		due = said.Sub(r.epoch)
	}
	for _, m := range r.machines {
		quiet := m.node.Initialized
		if m.node.LastPodEvent.After(quiet) {
			quiet = m.node.LastPodEvent
		}
		if at := quiet.Add(r.ConsolidateAfter); !quiet.IsZero() && at.After(now) {
			due = min(due, at.Sub(r.epoch))
		}
		if m.node.NominatedUntil.After(now) {
			due = min(due, m.node.NominatedUntil.Sub(r.epoch))
		}
	}
	if due < math.MaxInt64 {
		r.passDue = r.tick(due)
	}
}

// judge has a plan judged, if it is its turn.
func (r *run) judge(s *model.Snapshot, plan model.Plan, answered bool) error {
	r.plansMade++
	if r.CheckEvery <= 0 || r.plansMade%r.CheckEvery != 0 || r.Decider.Judge == nil {
		return nil
	}
	r.judged++
	if faults := r.Decider.Judge(s, plan, answered); len(faults) > 0 {
		return fmt.Errorf("at %s a plan of %s breaks %d promises, which is a bug; the first: %s", r.now, r.Decider.Name,
			len(faults), faults[0])
	}
	return nil
}
