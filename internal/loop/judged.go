package loop

import (
	"fmt"
	"runtime/debug"

	"github.com/nodeless/nodeless/engine/model"
)

// judged makes a plan and lets it be judged. A plan that fails, or an engine that panics, is saved and logged once, and
// nothing of it is carried out.
func (l *loop) judged(
	s *model.Snapshot, what string,
	decide func(*model.Snapshot, model.Policy) model.Plan,
	also func(*model.Snapshot, model.Plan) []string, // nil = nothing beyond Options.Check
) (model.Plan, []string) {
	plan, wrong := attempt(s, l.o.Policy, decide, l.o.Check)
	if also != nil && len(wrong) == 0 {
		wrong = also(s, plan)
	}
	if len(wrong) == 0 {
		return plan, nil
	}
	path := "nowhere"
	if l.o.BadPlans != "" {
		p, _, err := badPlan{Violations: wrong, Plan: plan, Policy: l.o.Policy, Snapshot: s}.save(l.o.BadPlans)
		if err != nil {
			p = err.Error()
		}
		path = p
	}
	if key := what + wrong[0]; !l.logged[key] && len(l.logged) < mostBadPlans {
		l.logged[key] = true
		l.o.Log.Error("a plan broke a promise and was not carried out; please report it", "by", what, "saved", path, "wrong", wrong)
	}
	return model.Plan{}, wrong
}

// attempt turns a panic of the engine or its judge into something that is wrong with the plan.
func attempt(
	s *model.Snapshot, p model.Policy,
	decide func(*model.Snapshot, model.Policy) model.Plan,
	check func(*model.Snapshot, model.Policy, model.Plan) []string,
) (plan model.Plan, wrong []string) {
	defer func() {
		if r := recover(); r != nil {
			wrong = []string{fmt.Sprintf("panic: %v", r), string(debug.Stack())}
		}
	}()
	plan = decide(s, p)
	return plan, check(s, p, plan)
}
