package engine

import (
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// empties removes nodes whose only pods are those of DaemonSets, finished ones and ones that end for good, once their
// pool's consolidateAfter has passed. A node with room that a CapacityBuffer reserves is not empty.
func (r *run) empties() {
	for _, n := range r.free(r.candidates, false) {
		if occupied(n) {
			continue
		}
		p := r.pools[n.Pool]
		switch left := r.untilConsolidation(n, p); {
		case r.projected.buffered[n.Name]:
			r.keep(n, model.Reason{Rule: model.RuleNeeded})
		case p.Disruption.Never:
			r.keep(n, model.Reason{Rule: model.RuleNever, Object: p.Name})
		case left > 0:
			r.keep(n, model.Reason{Rule: model.RuleTooYoung, Object: p.Name, Detail: left.String(), Until: r.s.Now.Add(left)})
		default:
			if reason := r.overBudget(n, p.Disruption.AllowedEmpty); reason.Rule != "" {
				r.keep(n, reason)
				continue
			}
			r.remove(n, model.Empty)
		}
	}
}

// untilConsolidation returns how much longer the node must stay unchanged. The time starts when the node was
// initialized or its last pod was bound or removed, whichever is later (karpenter.sh/v1
// spec.disruption.consolidateAfter).
func (r *run) untilConsolidation(n *model.Node, p *model.Pool) time.Duration {
	return max(p.Disruption.ConsolidateAfter, 0) - r.s.Now.Sub(quietSince(n))
}

func quietSince(n *model.Node) time.Time {
	if n.LastPodEvent.After(n.Initialized) {
		return n.LastPodEvent
	}
	return n.Initialized
}
