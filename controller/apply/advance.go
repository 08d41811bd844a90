package apply

import (
	"context"
	"errors"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
)

// Advance moves every command found in the cluster one step further, whichever process began it. It finishes a
// command that is still true once its replacements are ready, and undoes one that cannot be completed. The process
// may stop between any two API calls of Apply and Advance: the next process finds enough in the cluster to continue.
// Advance returns the latest time at which it must be called again; the zero time means after a change.
func (a *Applier) Advance(ctx context.Context, s *model.Snapshot, stillTrue cycle.StillTrue) (cycle.Result, time.Time) {
	confirm(ctx, a)
	f := a.find()
	var open []*activeCommand
	for _, c := range f.commands {
		if len(a.remaining(c)) > 0 {
			open = append(open, c)
		}
	}
	limit := cycle.ReplacementTimeout(len(open))
	var steps []func() cycle.Result
	for _, c := range open {
		steps = append(steps, func() cycle.Result { return a.advance(ctx, s, c, limit, stillTrue) })
	}
	cleanUp := func(claims []*karpv1.NodeClaim, malformed bool) {
		for _, claim := range claims {
			steps = append(steps, func() cycle.Result { return a.cleanUp(ctx, claim, malformed) })
		}
	}
	cleanUp(f.malformed, true)
	cleanUp(f.stale, false)
	cleanUp(a.taintedWithoutCause(s), false)
	r := parallel(a.o.Parallel, steps, func(step func() cycle.Result) cycle.Result { return step() })
	a.log(&r)
	return r, nextTimeout(open, limit, a.o.Clock.Now())
}

// confirm reads the claims that the watch has not shown for long. One that cannot be read stays.
func confirm(ctx context.Context, a *Applier) {
	parallel(a.o.Parallel, a.o.State.Unconfirmed(), func(claim *karpv1.NodeClaim) cycle.Result {
		a.refresh(ctx, claim)
		return cycle.Result{}
	})
}

// nextTimeout returns when the next command times out, zero if all have: those that could not be undone wait for a
// change, or for the pause after an error.
func nextTimeout(open []*activeCommand, limit time.Duration, now time.Time) time.Time {
	var next time.Time
	for _, c := range open {
		for _, due := range []time.Time{c.Since.Add(limit), c.Since.Add(limit + cycle.MinReplacementTimeout)} {
			if due.After(now) {
				next = cycle.Sooner(next, due)
			}
		}
	}
	return next
}

// advance moves one command one step further.
func (a *Applier) advance(ctx context.Context, s *model.Snapshot, c *activeCommand, limit time.Duration,
	stillTrue cycle.StillTrue,
) cycle.Result {
	if why, message := c.broken(a.o.Clock.Now(), limit); why != "" {
		return a.undo(ctx, c, why, message)
	}
	if err := a.mark(ctx, c); err != nil {
		if errors.Is(err, errChanged) {
			return a.undo(ctx, c, "victim_changed", err.Error())
		}
		return failed(err)
	}
	if claim := c.awaited(); claim != nil {
		a.nodes.once(claim, waitingPause, "DisruptionWaitingReadiness",
			"Waiting on readiness to continue disruption")
		return cycle.Result{}
	}
	remaining := a.remaining(c)
	if !a.shown(s, remaining) {
		return cycle.Result{} // just marked: the next snapshot shows which pods are on them
	}
	command := a.command(c, remaining)
	if changed := stillTrue(s, command); changed.Rule != "" {
		a.o.Metrics.NoLongerTrue(string(c.Method), len(remaining))
		return a.undo(ctx, c, "no_longer_true", reason.Undone(changed))
	}
	return a.finish(ctx, c, command, remaining)
}

// shown reports whether the snapshot shows that the nodes of these claims no longer accept pods.
func (a *Applier) shown(s *model.Snapshot, claims []*karpv1.NodeClaim) bool {
	marked := map[string]bool{}
	for i := range s.Nodes {
		marked[s.Nodes[i].Claim] = s.Nodes[i].Command != ""
	}
	for _, claim := range claims {
		if node := a.o.State.Node(claim.Status.NodeName); !marked[claim.Name] || node == nil || !isTainted(node) {
			return false
		}
	}
	return true
}

// finish requests the deletion of the remaining NodeClaims of a command.
func (a *Applier) finish(ctx context.Context, c *activeCommand, command model.Command,
	remaining []*karpv1.NodeClaim,
) cycle.Result {
	byName := map[string]*karpv1.NodeClaim{}
	for _, claim := range remaining {
		byName[claim.Name] = claim
	}
	var r cycle.Result
	for i := range command.Removals {
		m := &command.Removals[i]
		part, conflict := a.end(ctx, byName[m.Claim], m)
		r.Add(part)
		if conflict { // retry in the next cycle
			a.refresh(ctx, byName[m.Claim])
			r.Again = true
		}
	}
	if len(r.Removed) == len(remaining) {
		r.Finished = append(r.Finished, c.ID)
	}
	return r
}
