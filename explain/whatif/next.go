package whatif

import (
	"slices"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// next returns the next time at which something may change on its own, or zero if there is none.
func (r *run) next() time.Time {
	s := r.cluster.Snapshot()
	var next time.Time
	add := func(at time.Time) {
		if at.After(r.now()) {
			next = cycle.Sooner(next, at)
		}
	}
	due, _ := cycle.NextDue(s)
	add(due)
	add(r.retryAt)
	for _, f := range r.inFlight {
		add(f.at)
	}
	for _, at := range r.terminating {
		add(at)
	}
	for i := range s.Nodes {
		add(s.Nodes[i].NominatedUntil)
	}
	if r.waitsForSchedule(s) {
		add(r.now().Truncate(budgetPoll).Add(budgetPoll))
	}
	return next
}

// waitsForSchedule reports whether a drifted node waits for a budget or a window with a schedule.
func (r *run) waitsForSchedule(s *model.Snapshot) bool {
	waits := map[string]bool{}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Drifted != "" && !n.Deleting {
			waits[n.Pool] = true
		}
	}
	for name, pool := range r.pools {
		_, windows := pool.Annotations[translate.AnnotationWindows]
		if waits[name] && (windows ||
			slices.ContainsFunc(pool.Spec.Disruption.Budgets, func(b karpv1.Budget) bool { return b.Schedule != nil })) {
			return true
		}
	}
	return false
}
