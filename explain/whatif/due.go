package whatif

import (
	"slices"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// next is when something may change by the clock alone; zero if nothing will.
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
	add(r.again)
	for _, f := range r.flying {
		add(f.at)
	}
	for _, at := range r.leaving {
		add(at)
	}
	for i := range s.Nodes {
		add(s.Nodes[i].NominatedUntil)
	}
	if r.byTheClock(s) {
		add(r.now().Truncate(probe).Add(probe))
	}
	return next
}

// byTheClock reports whether a drifted machine waits for a budget or a window that goes by the time of day.
func (r *run) byTheClock(s *model.Snapshot) bool {
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
