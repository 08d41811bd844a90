package cycle

import (
	"slices"

	"github.com/nodeless/nodeless/engine/check"
	"github.com/nodeless/nodeless/engine/model"
)

// How much is explained in one turn: so many verdicts of a pool on a shape of pods in any case, and so many at most
// while nothing changes. Pods that come meanwhile wait for less time than their own plan takes.
const (
	leastVerdicts = 2_000
	mostVerdicts  = 200_000
)

// explain gives pods without a place their Reasons once everything that was decided is on its way. It stops when
// something changes: pods that come are answered first, and what is left is explained after the next plan.
func (x *Driver) explain(s *model.Snapshot, plan model.Plan) model.Plan {
	if x.o.Explain == nil || len(plan.Unplaced) == 0 {
		return plan
	}
	goOn := func(verdicts int) bool {
		return verdicts < leastVerdicts || verdicts < mostVerdicts && len(x.o.State.Changed()) == 0
	}
	explained, v := attempt(s, x.o.Policy, func(*model.Snapshot, model.Policy) model.Plan {
		out := plan
		out.Unplaced = slices.Clone(plan.Unplaced)
		x.o.Explain(&out, goOn)
		return out
	}, func(*model.Snapshot, model.Policy, model.Plan) []check.Violation { return nil })
	if len(v.wrong) == 0 {
		return explained
	}
	if x.news("Explain" + v.wrong[0]) {
		x.o.Log.Error("why pods wait was not found out; please report it", "wrong", v.wrong)
	}
	return plan
}
