package loop

import (
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// nextDue is when the next machine's consolidateAfter is over and no pod is on its way to it any more, and whether there is
// one to wait for.
func nextDue(s *model.Snapshot) (time.Time, bool) {
	pools := map[string]*model.DisruptionPolicy{}
	for i := range s.Pools {
		pools[s.Pools[i].Name] = &s.Pools[i].Disruption
	}
	var next time.Time
	for i := range s.Nodes {
		n := &s.Nodes[i]
		policy := pools[n.Pool]
		if policy == nil || n.Claim == "" || n.Deleting || n.State != model.Initialized {
			continue
		}
		since := n.Initialized
		if n.LastPodEvent.After(since) {
			since = n.LastPodEvent
		}
		due := later(since.Add(max(policy.ConsolidateAfter, 0)), n.NominatedUntil)
		if policy.Never {
			due = n.NominatedUntil // drift waits for that too
		}
		if due.After(s.Now) && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	return next, !next.IsZero()
}
