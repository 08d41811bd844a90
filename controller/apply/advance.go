package apply

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
)

// Advance brings every command that it finds in the cluster a step further, whoever began it: to its end if its
// replacements are ready and it is still true, back to where it began if it cannot come to an end. Between two API
// calls of it and of Apply a process may stop for ever: the next one finds enough to go on. It returns when it must
// be called again at the latest, zero if that depends on changes only.
func (a *Applier) Advance(ctx context.Context, s *model.Snapshot, stillTrue cycle.StillTrue) (cycle.Result, time.Time) {
	f := a.find()
	var r cycle.Result
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(a.o.Parallel)
	do := func(step func() cycle.Result) {
		group.Go(func() error {
			part := step()
			mu.Lock()
			defer mu.Unlock()
			r.Add(part)
			return nil
		})
	}
	open := a.open(f.commands)
	limit := cycle.ReplacementTimeout(len(open))
	for _, u := range open {
		do(func() cycle.Result { return a.advance(ctx, s, u, limit, stillTrue) })
	}
	for _, claim := range f.garbled {
		do(func() cycle.Result { return a.heal(ctx, claim, true) })
	}
	for _, claim := range f.stale {
		do(func() cycle.Result { return a.heal(ctx, claim, false) })
	}
	for _, claim := range a.tainted(s) {
		do(func() cycle.Result { return a.heal(ctx, claim, false) })
	}
	_ = group.Wait() // r has all errors
	a.log(&r)
	return r, nextLimit(open, limit, a.o.Clock.Now())
}

// nextLimit is when the time of a command is over next, zero if it is over for all: what could not be undone then
// waits for a change or for the pause after an error.
func nextLimit(open []*underway, limit time.Duration, now time.Time) time.Time {
	var next time.Time
	for _, u := range open {
		for _, due := range []time.Time{u.Since.Add(limit), u.Since.Add(limit + cycle.MinReplacementTimeout)} {
			if due.After(now) && (next.IsZero() || due.Before(next)) {
				next = due
			}
		}
	}
	return next
}

// open are the commands of which some victim is not going yet.
func (a *Applier) open(all []*underway) []*underway {
	var out []*underway
	for _, u := range all {
		if len(a.left(u)) > 0 {
			out = append(out, u)
		}
	}
	return out
}

// advance brings one command a step further.
func (a *Applier) advance(ctx context.Context, s *model.Snapshot, u *underway, limit time.Duration,
	stillTrue cycle.StillTrue,
) cycle.Result {
	if why, message := u.broken(a.o.Clock.Now(), limit); why != "" {
		return a.undo(ctx, u, why, message)
	}
	if err := a.mark(ctx, u); err != nil {
		if errors.Is(err, errChanged) {
			return a.undo(ctx, u, "victim_changed", err.Error())
		}
		return cycle.Result{Errors: []error{err}}
	}
	if claim := u.waiting(); claim != nil {
		a.machines.once(claim, waitingSaid, corev1.EventTypeNormal, "DisruptionWaitingReadiness",
			"Waiting on readiness to continue disruption")
		return cycle.Result{}
	}
	left := a.left(u)
	if !a.seen(s, left) {
		return cycle.Result{} // marked a moment ago: the next snapshot tells what is on them
	}
	command := a.command(u, left)
	if changed := stillTrue(s, command); changed.Rule != "" {
		a.o.Metrics.NoLongerTrue(string(u.Method), len(left))
		return a.undo(ctx, u, "no_longer_true", reason.Undone(changed))
	}
	return a.finish(ctx, u, command, left)
}

// seen reports whether the snapshot is one in which these machines take no pods any more.
func (a *Applier) seen(s *model.Snapshot, left []*karpv1.NodeClaim) bool {
	going := map[string]bool{}
	for i := range s.Nodes {
		going[s.Nodes[i].Claim] = s.Nodes[i].Command != ""
	}
	for _, claim := range left {
		if node := a.o.State.Node(claim.Status.NodeName); !going[claim.Name] || node == nil || !hasTaint(node) {
			return false
		}
	}
	return true
}

// finish asks for the end of what is left of a command's victims.
func (a *Applier) finish(ctx context.Context, u *underway, command model.Command, left []*karpv1.NodeClaim) cycle.Result {
	byName := map[string]*karpv1.NodeClaim{}
	for _, claim := range left {
		byName[claim.Name] = claim
	}
	var r cycle.Result
	for i := range command.Removals {
		m := &command.Removals[i]
		claim := byName[m.Claim]
		switch err := a.delete(ctx, claim, m); {
		case err == nil:
			r.Removed = append(r.Removed, m.Claim)
			a.reporter.removed(claim, a.o.State.Node(m.Node), m)
		case apierrors.IsNotFound(err):
			a.o.State.ForgetClaim(claim)
		case apierrors.IsConflict(err): // the next turn looks again
			a.refresh(ctx, claim)
			r.Again = true
		default:
			r.Errors = append(r.Errors, err)
		}
	}
	if len(r.Removed) == len(left) {
		r.Finished = append(r.Finished, u.ID)
	}
	return r
}
