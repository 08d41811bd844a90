package ahead

import (
	"context"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/internal/kit/events"
)

const (
	// minGrace is how late the next pod of a run may come at least: the CronJob controller, the Job controller and
	// admission need their time.
	minGrace = 10 * time.Second
	// slack is how long before the earliest time at which nodes may have to be launched a run is planned for.
	slack = 5 * time.Second
)

// awaited is the run of a CronJob whose pods are awaited, or were the last to be.
type awaited struct {
	Plan
	generation int64 // of the CronJob
	most       int   // how many pods are expected at most
	room       bool  // room is prepared
	over       bool  // pods that have not come by now are awaited no longer
}

// until returns how long the pods that have not come are waited for: since the last one, as long as launching anew
// would take.
func (a *awaited) until(last time.Time) time.Time {
	if last.Before(a.Run) {
		last = a.Run
	}
	return last.Add(max(a.Lead, minGrace))
}

// ownerOf names a CronJob in the cluster state, where CapacityBuffers have names, too.
func ownerOf(cj types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: cj.Namespace, Name: "cronjob/" + cj.Name}
}

// reconcile brings the room for a CronJob's pods up to date, and returns when to look again.
func (c *Controller) reconcile(ctx context.Context, key string) (time.Duration, error) {
	if key == watchKey {
		if c.watch(ctx) {
			return 0, nil
		}
		return watchAgain, nil
	}
	namespace, name, _ := strings.Cut(key, "/")
	at := types.NamespacedName{Namespace: namespace, Name: name}
	cj := &batchv1.CronJob{}
	err := c.o.Cache.Get(ctx, at, cj)
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("read CronJob %s: %w", at, err)
	}
	if err != nil {
		cj = nil
	}
	now := c.o.Clock.Now()
	wake, err := c.step(at, cj, now)
	if err != nil {
		c.o.Recorder.Event(cj, corev1.EventTypeWarning, "NoNodesAhead",
			events.Message("No nodes are launched ahead of its runs: "+err.Error()))
	}
	if err != nil || wake.IsZero() {
		return 0, nil
	}
	return max(wake.Sub(now), time.Millisecond), nil
}

// step prepares the room for a CronJob's next run if it is due, gives back what is left of the last one's, and
// returns when to call it again, zero if never. cj is nil if there is none any more. The error says what is wrong
// with it.
func (c *Controller) step(at types.NamespacedName, cj *batchv1.CronJob, now time.Time) (time.Time, error) {
	last := c.runs[at]
	if last != nil && (cj == nil || last.generation != cj.Generation) {
		c.o.Planner.State.Await(ownerOf(at), nil, 0, last.Job)
		c.idle.take(last.Job)
		delete(c.runs, at)
		last = nil
	}
	if cj == nil {
		return time.Time{}, nil
	}
	c.o.Planner.Boots.Observe(c.o.Planner.State.Claims())
	wake := c.settle(at, cj, last, now)
	if last != nil && last.room && now.Before(last.Run) {
		return wake, nil
	}
	next, err := c.prepare(cj, at, last, now)
	if wake.IsZero() || !next.IsZero() && next.Before(wake) {
		wake = next
	}
	return wake, err
}

// settle gives back the room for pods that have not come, and returns when it has to be called again, zero if
// never.
func (c *Controller) settle(at types.NamespacedName, cj *batchv1.CronJob, last *awaited, now time.Time) time.Time {
	switch {
	case last == nil || last.over:
		return time.Time{}
	case now.Before(last.Run):
		return last.Run
	}
	came, latest := c.o.Planner.State.Came(ownerOf(at))
	if until := last.until(latest); came < last.Pods && now.Before(until) {
		return until
	}
	last.over = true
	if last.room {
		idle := c.idle.take(last.Job)
		c.o.Recorder.Event(cj, corev1.EventTypeNormal, "NodesAhead", fmt.Sprintf(
			"Nodes were launched %s ahead of the run at %s, for %d pods; %d were created in time. Before them, ready nodes "+
				"idled for %.0f node-seconds, which cost $%.4f", last.Lead.Round(time.Second), last.Run.UTC().Format(time.RFC3339),
			last.Pods, min(came, last.Pods), idle.seconds, idle.dollars))
	}
	c.o.Planner.State.Await(ownerOf(at), last.template, 0, last.Job)
	return time.Time{}
}

// prepare awaits the pods of the next run once it is time, and returns when to call it again, zero if never.
func (c *Controller) prepare(cj *batchv1.CronJob, at types.NamespacedName, last *awaited, now time.Time) (time.Time,
	error,
) {
	after, most := now, MaxPods
	switch {
	case last == nil:
	case now.Before(last.Run): // it gets no room so far
		most = last.most
	case last.over: // a quota or a webhook may have kept others from being created
		most, _ = c.o.Planner.State.Came(ownerOf(at))
	}
	run, err := Next(cj, after)
	if err != nil || run.IsZero() {
		return time.Time{}, err
	}
	if begin := run.Add(-c.o.Planner.Boots.longest() - resolution - slack); now.Before(begin) {
		return begin, nil
	}
	plan := c.o.Planner.Plan(cj, run, most)
	next := &awaited{Plan: plan, generation: cj.Generation, most: most, room: plan.Why == ""}
	again := run
	switch {
	case next.room && now.Before(plan.From()):
		return plan.From(), nil
	case !next.room && last != nil && !last.over && last.Run.Before(run):
		return now.Add(slack), nil
	case !next.room:
		next.Pods, again = 0, now.Add(slack)
	}
	c.o.Planner.State.Await(ownerOf(at), plan.template, next.Pods, plan.Job)
	c.runs[at] = next
	if next.room {
		c.o.Log.Info("room is prepared for a CronJob's run", "cronjob", at, "run", run, "pods", plan.Pods, "lead", plan.Lead,
			"idle", Cents(plan.Idle), "waiting", Cents(plan.Waiting))
	}
	if again.After(run) {
		again = run
	}
	return again, nil
}
