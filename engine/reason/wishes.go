package reason

import (
	"fmt"

	"github.com/nodeless/nodeless/engine/model"
)

// wishes says what of a pool's owner's own wishes stands in the way; "" for other rules.
//
// Of Window, Object is the pool, Detail when its window opens next, Best "closing" if it is open and Detail is when it closes; of Unclear,
// Object is the pool and Detail what cannot be read; of SmallSaving, Object is the pool, Detail what is wanted and Best what is saved, in
// dollars an hour; of Job, Object is the pod and Detail how long it is likely to run; of NoHelp, Object is the DaemonSet and BestOf the type; of NotExpired and NotCrowded, Object is the machine.
func wishes(r model.Reason) string {
	switch r.Rule {
	case model.RuleWindow:
		switch {
		case r.Best != "":
			return fmt.Sprintf("the disruption window of pool %s closes at %s, too soon to begin", r.Object, r.Detail)
		case r.Detail == "":
			return "no disruption window of pool " + r.Object + " ever opens (nodeless.sh/disruption-windows)"
		}
		return fmt.Sprintf("pool %s lets machines go only in its disruption windows, the next of which opens at %s", r.Object, r.Detail)
	case model.RuleUnclear:
		return fmt.Sprintf("nothing of pool %s is disrupted until this is corrected: %s", r.Object, r.Detail)
	case model.RuleSmallSaving:
		return fmt.Sprintf("$%s/h would be saved, pool %s wants $%s/h or more (nodeless.sh/minimum-saving)", r.Best, r.Object, r.Detail)
	case model.RuleJob:
		return fmt.Sprintf("%s of a Job will be done in about %s, sooner than moving it pays (nodeless.sh/wait-for-jobs)", r.Object, r.Detail)
	case model.RuleNoHelp:
		return fmt.Sprintf("another %s would have no room for the pod of DaemonSet %s either", r.BestOf, r.Object)
	case model.RuleNotExpired:
		return r.Object + " is not too old any more"
	case model.RuleNotCrowded:
		return r.Object + " has room for the pods of its DaemonSets again"
	}
	return ""
}
