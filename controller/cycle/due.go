package cycle

import (
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// NextDue is when the next machine's consolidateAfter is over and no pod is on its way to it any more, or there is
// cause to replace it by then, and whether there is one to wait for.
func NextDue(s *model.Snapshot) (time.Time, bool) {
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
		for _, due := range append(causes(policy, n), due) {
			if due.After(s.Now) && (next.IsZero() || due.Before(next)) {
				next = due
			}
		}
	}
	return next, !next.IsZero()
}

// causes are the times from which the machine is to be replaced, past ones too.
func causes(policy *model.DisruptionPolicy, n *model.Node) []time.Time {
	var out []time.Time
	if policy.SoftExpireAfter > 0 {
		out = append(out, n.Created.Add(policy.SoftExpireAfter))
	}
	if policy.ReplaceCrowded {
		for _, l := range n.MissingDaemons {
			out = append(out, l.Since.Add(model.CrowdedOutAfter))
		}
	}
	return out
}
