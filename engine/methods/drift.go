package methods

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// drift replaces machines that are no longer as their pool and node class say, one command each, as many as the budgets let.
// Empty ones go at once, the others when there is a place for their pods: if possible not on a machine that has drifted too.
// What went as empty counts against this budget, since one budget may be for both.
func (r *run) drift() {
	all := slices.Concat(r.free(r.candidates, false), r.free(r.eventual, false))
	all = slices.DeleteFunc(all, func(n *model.Node) bool { return n.Drifted == "" })
	slices.SortFunc(all, byAge)
	for _, n := range all {
		if reason := r.overBudget(n, r.pools[n.Pool].Disruption.AllowedDrifted); reason.Rule != "" {
			r.keep(n, reason)
			continue
		}
		if occupants(n) == 0 && !r.world.buffered[n.Name] {
			r.remove(n, model.Drifted)
			continue
		}
		reason := r.replace(n, destinations{undrifted: true})
		if reason.Rule != "" {
			reason = r.replace(n, destinations{})
		}
		if reason.Rule != "" {
			r.keep(n, reason)
		}
	}
}

// replace proposes to replace a drifted machine, or says why it cannot be.
func (r *run) replace(n *model.Node, to destinations) model.Reason {
	if r.world.used[n.Name] {
		return model.Reason{Rule: model.RuleNeeded, Detail: "moving"}
	}
	overlay, plan := r.whatIf(to, n)
	if len(plan.Unplaced) > 0 {
		return noPlace(plan.Unplaced[0])
	}
	r.command(model.Drifted, []*model.Node{n}, overlay, plan)
	return model.Reason{}
}
