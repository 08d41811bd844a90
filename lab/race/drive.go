package main

import (
	"context"
	"fmt"
	"time"
)

// workload is a script of user actions, with the same times for both sides.
type workload struct {
	name   string
	about  string
	long   bool          // more than ten minutes per side: not in the default set
	up     []string      // flags of nodeless up
	elect  bool          // controllers use leader election
	limit  time.Duration // replaces stepLimit
	before []step        // run before the measurement
	steps  []step
}

// step is a user action.
type step struct {
	about string
	do    action
	// lasts is how long the step takes in addition to a boot time; it takes longer if not all pods run by then.
	lasts time.Duration
	// noBoot omits the boot time, and the wait for the pods.
	noBoot bool
}

type action func(ctx context.Context, d *driver) error

// stepLimit is how long after its end a step waits for pods that do not run yet.
const stepLimit = 5 * time.Minute

// driver runs the steps of a workload.
type driver struct {
	*cluster
	*watcher
	progress *progress
	boot     time.Duration
	limit    time.Duration
}

// prepare runs steps that are not measured.
func (d *driver) prepare(ctx context.Context, steps []step) error {
	for _, s := range steps {
		if err := s.do(ctx, d); err != nil {
			return fmt.Errorf("%s: %w", s.about, err)
		}
	}
	// Effects of the start, such as a cheaper node for CoreDNS, do not belong to the workload.
	d.progress.say("the cluster is ready; let it settle for %s", settle)
	return sleep(ctx, settle)
}

const settle = 20 * time.Second

func (d *driver) drive(ctx context.Context, steps []step) ([]stepTimes, error) {
	var out []stepTimes
	for n, s := range steps {
		d.progress.say("step %d of %d: %s", n+1, len(steps), s.about)
		began := time.Now()
		if err := s.do(ctx, d); err != nil {
			return out, fmt.Errorf("%s: %w", s.about, err)
		}
		all, err := d.await(ctx, s, began)
		if err != nil {
			return out, fmt.Errorf("%s: %w", s.about, err)
		}
		out = append(out, stepTimes{
			Step: s.about, AllRan: all, Awaited: !s.noBoot, Lasted: time.Since(began).Seconds(),
		})
	}
	return out, nil
}

// await waits until a step's time is over and all pods run, or its limit is reached. It returns the seconds after
// which all pods ran, or -1. Its first check is late: a step that the API server does not know of yet looks complete.
func (d *driver) await(ctx context.Context, s step, began time.Time) (allRan float64, err error) {
	end, ran := began.Add(s.lasts), -1.0
	if !s.noBoot {
		end = end.Add(d.boot)
	}
	last := time.Now()
	for look := time.Second; ; look = 100 * time.Millisecond {
		if err := sleep(ctx, min(look, max(time.Until(end), 10*time.Millisecond))); err != nil {
			return ran, err
		}
		select {
		case <-d.controller.Done():
			return ran, d.controller.Exited()
		case <-d.up.Done():
			return ran, d.up.Exited()
		default:
		}
		now, unmet := time.Now(), d.unmet()
		if unmet == "" && ran < 0 {
			ran = now.Sub(began).Seconds()
			d.progress.say("all run after %.1f s", ran)
		}
		switch {
		case now.Before(end):
		case ran >= 0 || s.noBoot:
			return ran, nil
		case now.After(end.Add(d.limit)):
			d.progress.say("gave up: %s", unmet)
			return ran, nil
		}
		if now.Sub(last) >= 10*time.Second {
			last = now
			d.report(ctx, unmet)
		}
	}
}

// report logs the current state.
func (d *driver) report(ctx context.Context, unmet string) {
	all, err := d.instances(ctx)
	if err != nil {
		return // the next one may succeed, and measure reports the error at the end
	}
	if unmet == "" {
		unmet = "all pods run"
	}
	now := costsOf(all, d.progress.began, time.Now())
	d.progress.say("%s; %d instances at $%.2f/h, %d launched in all", unmet, now.Nodes, now.RestPerHour, len(all))
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
