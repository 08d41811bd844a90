package controller

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/controller/metrics"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/explain/record"
)

// cycleMetrics are metrics of the decision cycle.
type cycleMetrics struct {
	counters  *metrics.Counters
	scheduler *metrics.Scheduler
	pods      *metrics.PodTimes

	bad, unproven, launches, removals prometheus.Counter
}

// observe registers the leader's metrics. A standby exposes only the metrics of its process, so that sums over
// replicas are right.
func (r *components) observe(ctx context.Context, o Options) (*cycleMetrics, error) {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		r.registry.MustRegister(c)
		return c
	}
	m := &cycleMetrics{
		counters: r.counters, scheduler: metrics.NewScheduler(r.registry), pods: metrics.NewPodTimes(r.registry, o.Clock),
		bad: counter("nodeless_plans_refused_total", "Plans that failed the check and were not carried out."),
		unproven: counter("nodeless_plans_unproven_total",
			"Plans that were carried out although the check found no order in which their pods can be bound: there were too "+
				"many to try all."),
		launches: counter("nodeless_planned_launches_total", "NodeClaims created by plans."),
		removals: counter("nodeless_planned_removals_total", "NodeClaims deleted by plans."),
	}
	if err := r.counters.WatchClasses(ctx, r.cache); err != nil {
		return nil, err
	}
	if o.Unobserved {
		return m, nil
	}
	r.registry.MustRegister(metrics.NewCluster(metrics.ClusterOptions{Reader: r.cache, State: r.state, Clock: o.Clock}))
	if err := m.pods.Watch(ctx, r.cache); err != nil {
		return nil, err
	}
	return m, metrics.WatchConditions(ctx, r.registry, r.cache, r.state, o.Clock)
}

func (m *cycleMetrics) observe(d cycle.Decision) {
	m.scheduler.Planned(d.Snapshot, &d.Plan, d.Took)
	m.pods.Decided(&d.Plan)
	if d.Weighed > 0 { // not every cycle looks for nodes to remove
		m.counters.Evaluated(d.Weighed)
	}
	if len(d.Bad) > 0 {
		m.bad.Inc()
	}
	if len(d.Unproven) > 0 {
		m.unproven.Inc()
	}
	m.launches.Add(float64(len(d.Result.Created)))
	m.removals.Add(float64(len(d.Result.Removed)))
}

// recordOf returns a cycle's entry in the log of decisions.
func recordOf(d cycle.Decision, p model.Policy) record.Cycle {
	t := record.Cycle{
		Snapshot: d.Snapshot, Policy: p, Plan: d.Plan, Bad: d.Bad, Claims: d.Result.Claims, Removed: d.Result.Removed,
		Begun: d.Result.Begun, Finished: d.Result.Finished,
	}
	for _, u := range d.Result.Undone {
		t.Undone = append(t.Undone, record.Abandoned{Command: u.Command, Why: u.Message})
	}
	return t
}
