package why

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/controller/ahead"
	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/reason"
)

// nextRun says when a CronJob runs next, and whether nodes are launched ahead of it.
func (q *workloadQuestion) nextRun(ctx context.Context) {
	cj := &batchv1.CronJob{}
	if err := q.c.Get(ctx, client.ObjectKey{Namespace: q.of.Namespace, Name: q.of.Name}, cj); err != nil {
		q.sayf("next run", "unknown: %v", err)
		return
	}
	now, zone := q.s.Now.Local(), ""
	if _, offset := now.Zone(); cj.Spec.TimeZone == nil && offset != 0 {
		zone = "; spec.timeZone is not set, this machine's time zone is taken for kube-controller-manager's"
	}
	run, err := ahead.Next(cj, now)
	switch {
	case err != nil:
		q.sayf("next run", "unknown: %v", err)
		return
	case run.IsZero():
		q.say("next run", "none: it is suspended, or its schedule has none")
		return
	}
	q.sayf("next run", "%s, in %s%s", run.UTC().Format(time.RFC3339), duration.HumanDuration(run.Sub(now)), zone)
	planner := ahead.Planner{State: q.c.State, Provision: engine.Provision, Policy: q.policy, Boots: &ahead.Boots{}}
	p := planner.Plan(cj, run, ahead.MaxPods)
	if p.Why != "" {
		q.say("nodes ahead", "none: "+p.Why)
		return
	}
	q.sayf("nodes ahead", "for %s, from %s on, %s before: by the NodeClaims there are, nodes boot in about %s",
		reason.Count(p.Pods, "pod"), p.From().UTC().Format(time.TimeOnly), p.Lead, p.Boot)
	q.sayf("their price", "idling until the run is expected to cost %s; pods that wait for nodes launched after it, %s",
		ahead.Cents(p.Idle), ahead.Cents(p.Waiting))
}
