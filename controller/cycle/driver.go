// Package cycle is the decision cycle: snapshot, decide, check, apply. A Driver makes one cycle; the controller and
// forecasts drive it. Run chooses the time: as soon as changes pause, later while controllers begin to want pods, and
// when a node's consolidateAfter has passed. The engine decides, and an Applier carries out plans; both are given as
// Options.
package cycle

import (
	"context"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// Driver makes decisions and applies them, except for plans that break a promise. It is not safe for concurrent use.
type Driver struct {
	o      Options
	search search
	logged map[string]time.Time // failures, since when they are in the log
}

// NewDriver returns a Driver that has decided nothing yet.
func NewDriver(o Options) *Driver { return &Driver{o: o.defaults(), logged: map[string]time.Time{}} }

// maxLeftOut is how many times a cycle leaves out pods of plans that broke a promise.
const maxLeftOut = 4

// Provision decides for the pending pods. If the plan breaks a promise, it is made again without the pods that show it
// and those like them: a fault of the engine that concerns some pods holds up no others.
func (x *Driver) Provision(ctx context.Context) Decision {
	s := x.o.State.Snapshot()
	d := Decision{At: s.Now, Pending: waiting(s), Nodes: len(s.Nodes), Snapshot: s}
	plan, v := x.judged(s, "Provision", x.o.Policy, x.o.Provision, x.o.Answered)
	for n := 0; v.without != nil && n < maxLeftOut; n++ {
		d.Bad = append(d.Bad, v.wrong...)
		plan, v = x.judged(v.without, "Provision", x.o.Policy, x.o.Provision, x.o.Answered)
	}
	d.Plan, d.Bad, d.Unproven, d.Took = plan, append(d.Bad, v.wrong...), v.unproven, x.o.Clock.Now().Sub(s.Now)
	if len(v.wrong) == 0 {
		d.Result = x.o.Applier.Apply(ctx, s, plan)
		if len(d.Result.Created) > 0 {
			x.search.launched = x.o.Clock.Now()
		}
		var promised map[model.PodKey]string
		if x.o.Promise {
			promised = plan.PendingClaims(s, d.Result.Claims)
		}
		x.o.State.Nominate(plan.NominatedNodes(s), promised)
		d.Plan = x.explain(s, plan)
		x.o.Applier.Report(s, d.Plan, d.Result.Claims)
	}
	return d
}

// waiting counts the pods without a place, except for placeholders and pods that must leave their node.
func waiting(s *model.Snapshot) int {
	n := 0
	for i := range s.Pending {
		if p := &s.Pending[i]; p.From == "" && !p.Virtual {
			n++
		}
	}
	return n
}

// Advance moves the commands in progress one step further and adds the results to the decision. It returns when the
// next command times out.
func (x *Driver) Advance(ctx context.Context, d *Decision) time.Time {
	s := x.o.State.Snapshot()
	r, due := x.o.Applier.Advance(ctx, s, func(s *model.Snapshot, c model.Command) model.Reason {
		return x.o.StillTrue(s, x.o.Policy, c)
	})
	d.Result.Add(r)
	return due
}

// Disrupt removes and replaces nodes that are not worth their price, and adds the results to the decision. It returns
// when to call it again even if nothing changes. It searches a part of the cluster at a time: see More. Of a plan that
// breaks a promise, it does what the violations are not about.
func (x *Driver) Disrupt(ctx context.Context, d *Decision) time.Time {
	s := x.o.State.Snapshot()
	due, _ := NextDue(s)
	policy, look := x.search.policy(s, x.o.Policy)
	if !look {
		d.Plan.Kept = x.search.kept
		return Sooner(due, x.search.due(s.Now))
	}
	plan, v := x.judged(s, "Disrupt", policy, x.o.Disrupt, nil)
	if d.Bad = append(d.Bad, v.wrong...); v.spared != nil {
		spared := *v.spared
		plan, v = x.judged(s, "Disrupt", policy, func(*model.Snapshot, model.Policy) model.Plan { return spared }, nil)
		d.Bad = append(d.Bad, v.wrong...)
	}
	known := x.o.Clock.Now()
	d.Weighed = known.Sub(s.Now)
	d.Unproven = append(d.Unproven, v.unproven...)
	d.Plan.Removals, d.Plan.Commands, d.Plan.Kept = plan.Removals, plan.Commands, plan.Kept
	var r Result
	if len(plan.Removals)+len(plan.Commands)+len(plan.Kept) > 0 {
		r = x.o.Applier.Apply(ctx, s, model.Plan{Removals: plan.Removals, Commands: plan.Commands, Kept: plan.Kept})
		d.Result.Add(r)
	}
	x.search.looked(s, &plan, known, len(v.wrong)+len(r.Refused)+len(r.Errors) == 0)
	d.Plan.Kept = x.search.kept
	return Sooner(due, x.search.due(s.Now))
}

// More reports whether Disrupt stopped in the middle of a search that can go on at once.
func (x *Driver) More() bool { return x.search.after != (model.Cursor{}) && !x.search.held }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Sooner returns the earlier of two times; the zero time means never.
func Sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
