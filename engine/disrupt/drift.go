package disrupt

import (
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// drift replaces machines that are no longer as their pool and node class say, and what else there is cause for, one command each, as
// many as the budgets let. Pools take turns: see byTurns.
// Empty ones go at once, the others when there is a place for their pods: if possible not on a machine that has drifted too.
// What went as empty counts against this budget, since one budget may be for both. Looking for places is what takes time: what
// it does not come to, the next call does that begins After.
func (r *run) drift() {
	looked := readLookedAt(r.policy.After.Drifted)
	atOnce := func(n *model.Node) bool { return !occupied(n) && !r.world.buffered[n.Name] }
	for _, n := range r.byTurns(r.replaceable(false), looked, atOnce) {
		reason := r.overBudget(n, r.pools[n.Pool].Disruption.AllowedDrifted)
		switch {
		case reason.Rule != "":
		case atOnce(n):
			r.remove(n, r.cause(n))
		case r.world.used[n.Name]:
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

// driftKey orders machines by how long ago they drifted, as upstream (pkg/controllers/disruption/drift.go), then by name.
func (r *run) driftKey(n *model.Node) string {
	_, since := cause(r.s, &r.pools[n.Pool].Disruption, n)
	return since.UTC().Format(time.RFC3339) + "/" + n.Name
}

// replace proposes to replace a machine, or says why it cannot be.
func (r *run) replace(n *model.Node) model.Reason {
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
