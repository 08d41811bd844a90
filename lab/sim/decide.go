package sim

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/engine/check"
	"github.com/nodeless/nodeless/engine/model"
)

// newDriver returns the controller's own driver, connected to the simulated cluster.
func (r *run) newDriver() *cycle.Driver {
	o := r.Decider.Options
	judged := false // whether the latest plan was checked
	o.State, o.Applier, o.Clock, o.Log = state{r}, applier{r}, r.clock, slog.New(slog.DiscardHandler)
	o.Provision = func(s *model.Snapshot, p model.Policy) model.Plan {
		r.plans++
		return r.Decider.Provision(s, p)
	}
	o.Disrupt = func(s *model.Snapshot, p model.Policy) model.Plan {
		r.passes++
		return r.Decider.Disrupt(s, p)
	}
	o.Check = func(s *model.Snapshot, p model.Policy, plan model.Plan) []check.Violation {
		judged = r.Decider.Check != nil && r.CheckEvery > 0 && (r.plans+r.passes)%r.CheckEvery == 0
		if !judged {
			return nil
		}
		r.judged++
		return r.Decider.Check(s, p, plan)
	}
	if r.Decider.Answered != nil {
		o.Answered = func(s *model.Snapshot, plan model.Plan) []check.Violation {
			if !judged {
				return nil
			}
			return r.Decider.Answered(s, plan)
		}
	}
	return cycle.NewDriver(o)
}

// decided passes a decision to OnDecision. It returns an error if a plan failed its check.
func (r *run) decided(d *cycle.Decision) error {
	if len(d.Bad) > 0 {
		return fmt.Errorf("at %s a plan of %s fails %d checks, which is a bug; the first: %s", r.now, r.Decider.Name,
			len(d.Bad), d.Bad[0])
	}
	if r.OnDecision != nil {
		r.OnDecision(*d)
	}
	return nil
}

// changed records that the cluster has changed, so that the next interval searches for nodes to remove.
func (r *run) changed() {
	r.snap = nil
	r.searchBy(r.now + 1)
}

// searchBy schedules a search for nodes to remove at the first interval at or after from, unless one is due earlier.
func (r *run) searchBy(from time.Duration) {
	if next := (from + r.Interval - 1).Truncate(r.Interval); r.disruptDue == 0 || next < r.disruptDue {
		r.disruptDue = next
	}
}

// planSoon schedules provisioning for when no further pod has arrived for a while.
func (r *run) planSoon() {
	r.pace.Change(r.time(r.now))
	due, _ := r.pace.Due()
	r.provisionDue = max(due.Sub(r.epoch), 1)
}

// provision plans for the waiting pods and for the pods on nodes being removed or interrupted.
func (r *run) provision(ctx context.Context) error {
	r.provisionDue = 0
	r.pace.Settled()
	if len(r.waiting) == 0 && r.leaving == 0 {
		return nil
	}
	d := r.driver.Provision(ctx)
	if len(d.Result.Errors)+len(d.Plan.Unplaced) > 0 {
		r.provisionDue = max(d.Next(d.Plan.RecheckAt, r.time(r.now)).Sub(r.epoch), r.now+1)
	}
	return r.decided(&d)
}

// advance continues the commands whose replacements are all ready.
func (r *run) advance(ctx context.Context) {
	if slices.ContainsFunc(r.inProgress, func(c *command) bool { return c.waits == 0 }) {
		r.driver.Advance(ctx, &cycle.Decision{})
	}
}

// disrupt searches for nodes that are not worth their price, continuing where the last search stopped.
func (r *run) disrupt(ctx context.Context) error {
	r.disruptDue = 0
	var due time.Time
	for range r.Pieces {
		d := cycle.Decision{At: r.time(r.now), Snapshot: r.snapshot()}
		due = r.driver.Disrupt(ctx, &d)
		r.shown = slices.Clone(r.shown) // the driver compares the next snapshot with this one
		if err := r.decided(&d); err != nil {
			return err
		}
		r.advance(ctx)
		if !r.driver.More() {
			break
		}
	}
	if !due.IsZero() {
		r.searchBy(max(due.Sub(r.epoch), r.now+1))
	}
	return nil
}
