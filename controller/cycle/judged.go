package cycle

import (
	"fmt"
	"runtime/debug"

	"github.com/nodeless/nodeless/engine/check"
	"github.com/nodeless/nodeless/engine/model"
)

// verdict is what was found of a plan.
type verdict struct {
	wrong    []string // it must not be carried out
	unproven []string // it may be right
}

// judged makes a plan and lets it be judged. A plan that fails, or an engine that panics, is saved and logged once, and
// nothing of it is carried out.
func (x *Driver) judged(
	s *model.Snapshot, what string, policy model.Policy,
	decide func(*model.Snapshot, model.Policy) model.Plan,
	also func(*model.Snapshot, model.Plan) []check.Violation, // nil = nothing beyond Options.Check
) (model.Plan, verdict) {
	plan, v := attempt(s, policy, decide, x.o.Check)
	if also != nil && len(v.wrong) == 0 {
		v.add(also(s, plan))
	}
	switch {
	case len(v.wrong) > 0:
		path := x.save(badPlan{Violations: v.wrong, Plan: plan, Policy: policy, Snapshot: s})
		if x.news(what + v.wrong[0]) {
			x.o.Log.Error("a plan broke a promise and was not carried out; please report it", "by", what, "saved", path,
				"wrong", v.wrong)
		}
		return model.Plan{}, verdict{wrong: v.wrong}
	case len(v.unproven) > 0 && x.news(what+" unproven"):
		x.o.Log.Warn("no order was found in which kube-scheduler can bind the pods of a plan, but not all were tried: it was carried out; "+
			"this is said once, nodeless_plans_unproven_total counts", "by", what, "unproven", v.unproven)
	}
	return plan, v
}

// save keeps a bad plan, if a folder for them is known, and says where, or why not.
func (x *Driver) save(b badPlan) string {
	if x.o.BadPlans == "" {
		return "nowhere"
	}
	path, _, err := b.save(x.o.BadPlans)
	if err != nil {
		return err.Error()
	}
	return path
}

// news reports whether it was not said before.
func (x *Driver) news(key string) bool {
	if x.logged[key] || len(x.logged) >= mostBadPlans {
		return false
	}
	x.logged[key] = true
	return true
}

func (v *verdict) add(found []check.Violation) {
	for _, f := range found {
		if f.Unproven {
			v.unproven = append(v.unproven, f.Error())
		} else {
			v.wrong = append(v.wrong, f.Error())
		}
	}
}

// attempt turns a panic of the engine or its judge into something that is wrong with the plan.
func attempt(
	s *model.Snapshot, p model.Policy,
	decide func(*model.Snapshot, model.Policy) model.Plan,
	check func(*model.Snapshot, model.Policy, model.Plan) []check.Violation,
) (plan model.Plan, v verdict) {
	defer func() {
		if r := recover(); r != nil {
			v = verdict{wrong: []string{fmt.Sprintf("panic: %v", r), string(debug.Stack())}}
		}
	}()
	plan = decide(s, p)
	v.add(check(s, p, plan))
	return plan, v
}
