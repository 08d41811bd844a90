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

	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/internal/kit/events"
)

const (
	// grace is how late the next pod of a run's Job may come: the Job controller and admission take time.
	grace = 10 * time.Second
	// jobGrace is how late the CronJob controller may create a run's Job.
	jobGrace = time.Minute
	// slack is how long before the earliest possible launch a run is planned.
	slack = 5 * time.Second
	// planAgain is the interval between plans as long as they prepare no capacity.
	planAgain = 10 * time.Second
)

// awaited is the run of a CronJob whose pods are awaited, or were awaited last.
type awaited struct {
	Plan
	uid        types.UID // of the CronJob: another one of its name may have the same generation
	generation int64     // of the CronJob
	most       int       // maximum number of pods expected; once the run is over, of the next run
	jobSeen    time.Time // when the run's Job was first known to exist, zero if it is not
	over       bool      // missing pods are no longer awaited
}

// ownerOf returns the name of a CronJob in the cluster state, distinct from the names of CapacityBuffers.
func ownerOf(cj types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: cj.Namespace, Name: "cronjob/" + cj.Name}
}

// reconcile processes a CronJob or a NodeClaim, and returns the delay until the next time, 0 if never.
func (c *Controller) reconcile(ctx context.Context, key string) (time.Duration, error) {
	now := c.o.Clock.Now()
	var wake time.Time
	var err error
	if namespace, name, _ := strings.Cut(key, "/"); namespace != "" {
		wake, err = c.cronJob(ctx, types.NamespacedName{Namespace: namespace, Name: name}, now)
	} else {
		wake, err = c.expire(ctx, name, now)
	}
	if err != nil || wake.IsZero() {
		return 0, err
	}
	return max(wake.Sub(now), time.Millisecond), nil
}

// cronJob updates the capacity prepared for a CronJob's pods, and returns when to call it again, zero if never.
func (c *Controller) cronJob(ctx context.Context, at types.NamespacedName, now time.Time) (time.Time, error) {
	cj := &batchv1.CronJob{}
	switch err := c.o.Cache.Get(ctx, at, cj); {
	case apierrors.IsNotFound(err):
		cj = nil
	case err != nil:
		return time.Time{}, fmt.Errorf("read CronJob %s: %w", at, err)
	}
	wake, invalid := c.step(at, cj, now)
	if invalid != nil {
		c.o.Recorder.Event(cj, corev1.EventTypeWarning, "NoNodesAhead",
			events.Message("No nodes are launched ahead of its runs: "+invalid.Error()))
	}
	return wake, nil
}

// step updates the capacity prepared for a CronJob's runs, one run after the other, and returns when to call it
// again, zero if never. cj is nil if the CronJob no longer exists. The error says what is wrong with its schedule.
func (c *Controller) step(at types.NamespacedName, cj *batchv1.CronJob, now time.Time) (time.Time, error) {
	last := c.runs[at]
	if last != nil && (cj == nil || last.uid != cj.UID || last.generation != cj.Generation) {
		c.o.Planner.State.Await(ownerOf(at), nil, 0, last.Job)
		c.idle.take(last.Job)
		delete(c.runs, at)
		last = nil
	}
	switch {
	case cj == nil:
		return time.Time{}, nil
	case last == nil || last.over:
	case now.Before(last.Run):
		if last.Pods > 0 {
			return last.Run, nil
		}
	default:
		if until := c.settle(at, cj, last, now); now.Before(until) {
			return until, nil
		}
	}
	return c.prepare(cj, at, last, now)
}

// created reports whether the CronJob controller has created the run's Job, as the CronJob's status tells, and notes
// when it did.
func (a *awaited) created(cj *batchv1.CronJob, now time.Time) bool {
	if last := cj.Status.LastScheduleTime; last == nil || last.Time.Before(a.Run) {
		return false
	}
	if a.jobSeen.IsZero() {
		a.jobSeen = now
	}
	return true
}

// settle releases the capacity left over from a run once it is too late for the run's pods, and returns when that is.
func (c *Controller) settle(at types.NamespacedName, cj *batchv1.CronJob, last *awaited, now time.Time) time.Time {
	came, until := c.o.Planner.State.Came(ownerOf(at))
	if came == 0 && !waits(cj, last.Job) {
		if latest := last.Run.Add(jobGrace); !last.created(cj, now) && now.Before(latest) {
			return latest // or when the CronJob's status changes
		}
	}
	for _, t := range []time.Time{last.Run, last.jobSeen} {
		if until.Before(t) {
			until = t
		}
	}
	if until = until.Add(grace); now.Before(until) {
		return until
	}
	last.over = true
	if !waits(cj, last.Job) { // a quota or a webhook may have prevented some pods, and will do so next time
		last.most = came
	}
	if last.Pods > 0 {
		idle := c.idle.take(last.Job)
		c.o.Recorder.Event(cj, corev1.EventTypeNormal, "NodesAhead", fmt.Sprintf(
			"Nodes were launched %s ahead of the run at %s, for %d pods; %d were created in time. Before them, ready nodes "+
				"idled for %.0f node-seconds, which cost %s", last.Lead.Round(time.Second), last.Run.UTC().Format(time.RFC3339),
			last.Pods, min(came, last.Pods), idle.seconds, reason.Money(idle.dollars, 4)))
	}
	c.o.Planner.State.Await(ownerOf(at), last.template, 0, last.Job)
	return until
}

// prepare prepares capacity for the pods of the next run once it is time, and returns when to call it again, zero if
// never.
func (c *Controller) prepare(cj *batchv1.CronJob, at types.NamespacedName, last *awaited, now time.Time) (time.Time,
	error,
) {
	most := MaxPods
	if last != nil {
		most = last.most
	}
	run, err := Next(cj, now)
	if err != nil || run.IsZero() {
		return time.Time{}, err
	}
	c.o.Planner.Boots.Observe(c.o.Planner.State.Claims())
	if begin := run.Add(-c.o.Planner.Boots.longest() - resolution - slack); now.Before(begin) {
		return begin, nil
	}
	plan := c.o.Planner.Plan(cj, run, most)
	if plan.Pods > 0 && now.Before(plan.From()) {
		return plan.From(), nil
	}
	plan.Lead = run.Sub(now) // less than planned if the CronJob is new
	c.o.Planner.State.Await(ownerOf(at), plan.template, plan.Pods, plan.Job)
	c.runs[at] = &awaited{Plan: plan, uid: cj.UID, generation: cj.Generation, most: most}
	if plan.Pods > 0 {
		c.o.Log.Info("room is prepared for a CronJob's run", "cronjob", at, "run", run, "pods", plan.Pods, "lead", plan.Lead,
			"idle", Cents(plan.Idle), "waiting", Cents(plan.Waiting))
	} else if again := now.Add(planAgain); again.Before(run) {
		return again, nil
	}
	return run, nil
}
