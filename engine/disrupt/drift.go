package disrupt

import (
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// drift is the method that replaces drifted, expired and crowded-out nodes.
type drift struct{ *run }

// drift replaces nodes that have cause, one command each, as many as the budgets allow; pools take turns (see
// byTurns). Empty nodes are removed at once, others when there is a place for their pods, if possible on a node that
// is not itself to be replaced. Nodes removed as empty count against the same budget. Looking for places takes the
// time: where it stops, the next call continues from After.
func (r *drift) drift() {
	looked := readLookedAt(r.policy.After.Drifted)
	atOnce := func(n *model.Node) bool { return !occupied(n) && !r.projected.buffered[n.Name] }
	for _, n := range r.byTurns(r.replaceable(false), looked, atOnce) {
		reason := r.overBudget(n, r.pools[n.Pool].Disruption.AllowedDrifted)
		switch {
		case reason.Rule != "":
		case atOnce(n):
			r.remove(n, r.cause(n))
		case r.projected.used[n.Name]:
			reason = model.Reason{Rule: model.RuleNeeded, Detail: "moving"}
		case r.policy.After.Underutilized != "" || looked.has(n.Pool, r.driftKey(n)):
			reason = model.Reason{Rule: model.RuleSteps}
		case r.left <= 0:
			r.partial, reason = true, model.Reason{Rule: model.RuleSteps}
		default:
			looked[n.Pool] = r.driftKey(n)
			r.after.Drifted = looked.String()
			reason = r.replace(n)
		}
		if reason.Rule != "" {
			r.keep(n, reason)
		}
	}
}

// driftKey orders nodes by the time since which they are to be replaced, as upstream
// (pkg/controllers/disruption/drift.go), then by name.
func (r *drift) driftKey(n *model.Node) string {
	_, since := cause(r.s, &r.pools[n.Pool].Disruption, n)
	return since.UTC().Format(time.RFC3339) + "/" + n.Name
}

// replace proposes to replace a node, or returns why it cannot be replaced.
func (r *drift) replace(n *model.Node) model.Reason {
	var reason model.Reason
	for _, to := range []destinations{{undrifted: true}, {}} {
		plan := r.whatIf(to, n)
		if len(plan.Unplaced) == 0 {
			if reason := r.noHelp(n, &plan); reason.Rule != "" {
				return reason
			}
			r.command(r.cause(n), []*model.Node{n}, plan)
			return model.Reason{}
		}
		reason = noPlace(plan.Unplaced[0])
	}
	return reason
}
