package cycle

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/check"
	"github.com/nodeless/nodeless/engine/model"
)

// verdict is the outcome of a plan's check.
type verdict struct {
	wrong    []string // violations: the plan must not be carried out
	unproven []string // promises that the plan may break
	// without is the snapshot without the pods that the violations are about, and those like them; nil if there are none,
	// or if nothing is left to plan for.
	without *model.Snapshot
	spared  *model.Plan // without the removals and commands that the violations are about; nil if there are none
}

// judged makes a plan and checks it. If the plan fails or the engine panics, the plan is saved once and logged once an
// hour; of it, only what the verdict spares may be carried out.
func (x *Driver) judged(
	s *model.Snapshot, what string, policy model.Policy,
	decide func(*model.Snapshot, model.Policy) model.Plan,
	also func(*model.Snapshot, model.Plan) []check.Violation, // nil = nothing beyond Options.Check
) (model.Plan, verdict) {
	plan, v := attempt(s, policy, decide, x.o.Check)
	if also != nil && len(v.wrong) == 0 {
		v.add(s, plan, also(s, plan))
	}
	switch {
	case len(v.wrong) > 0:
		path := x.save(badPlan{Violations: v.wrong, Plan: plan, Policy: policy, Snapshot: s})
		if x.news(what + v.wrong[0]) {
			x.o.Log.Error("a plan failed its check and was not applied; please report it", "by", what, "saved", path,
				"wrong", v.wrong)
		}
		v.unproven = nil
		return model.Plan{}, v
	case len(v.unproven) > 0 && x.news(what+" unproven"):
		x.o.Log.Warn("a plan was carried out although the check found no order in which kube-scheduler can bind its "+
			"pods; it could not "+
			"try all orders; logged once an hour, counted by nodeless_plans_unproven_total", "by", what, "unproven", v.unproven)
	}
	return plan, v
}

// save saves a bad plan if there is a folder for them, and returns where, or why not.
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

// Failures that are logged: each once in logPause, and at most maxLogged in that time.
const (
	logPause  = time.Hour
	maxLogged = 100
)

// news reports whether the key has not been logged for logPause, and records that it is logged now.
func (x *Driver) news(key string) bool {
	now := x.o.Clock.Now()
	maps.DeleteFunc(x.logged, func(_ string, at time.Time) bool { return now.Sub(at) >= logPause })
	if _, logged := x.logged[key]; logged || len(x.logged) >= maxLogged {
		return false
	}
	x.logged[key] = now
	return true
}

// add adds the violations of a plan.
func (v *verdict) add(s *model.Snapshot, plan model.Plan, found []check.Violation) {
	var wrong []check.Violation
	for _, f := range found {
		if f.Unproven {
			v.unproven = append(v.unproven, f.Error())
		} else {
			wrong, v.wrong = append(wrong, f), append(v.wrong, f.Error())
		}
	}
	if len(wrong) == 0 {
		return
	}
	spared := check.Spared(plan, wrong)
	if len(spared.Removals) < len(plan.Removals) || len(spared.Commands) < len(plan.Commands) {
		v.spared = &spared
	}
	v.without = without(s, check.Shapes(s, &plan, wrong))
}

// without returns the snapshot without the pods of these shapes, nil if there are none or nothing is left to plan for.
// At first it leaves out only those without a place of an earlier plan, which others would take.
func without(s *model.Snapshot, shapes map[int]bool) *model.Snapshot {
	out := func(p model.Pod) bool { return shapes[p.Shape] }
	unnominated := func(p model.Pod) bool { return shapes[p.Shape] && p.Nominated == "" }
	if slices.ContainsFunc(s.Pending, unnominated) || slices.ContainsFunc(s.Expected, unnominated) {
		out = unnominated
	}
	rest := *s
	rest.Pending = slices.DeleteFunc(slices.Clone(s.Pending), out)
	rest.Expected = slices.DeleteFunc(slices.Clone(s.Expected), out)
	static := slices.ContainsFunc(s.Pools, func(p model.Pool) bool { return p.Static })
	if len(shapes) == 0 || len(rest.Pending) == 0 && !static {
		return nil
	}
	return &rest
}

// attempt makes and checks a plan. A panic counts as a violation.
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
	v.add(s, plan, check(s, p, plan))
	return plan, v
}

// maxBadPlans is the maximum number of bad plans kept: a plan that fails once tends to fail again.
const maxBadPlans = 20

// badPlan is what is saved about a plan that failed its check: enough to reproduce it.
type badPlan struct {
	Violations []string
	Plan       model.Plan
	Policy     model.Policy
	Snapshot   *model.Snapshot
}

// save writes the plan to a folder, under a name derived from its first violation, and returns the path; the same
// failure is saved once.
func (b badPlan) save(dir string) (path string, news bool, err error) {
	sum := sha256.Sum256([]byte(b.Violations[0]))
	path = filepath.Join(dir, hex.EncodeToString(sum[:6])+".json")
	if _, err := os.Stat(path); err == nil {
		return path, false, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return path, true, fmt.Errorf("save bad plan: %w", err)
	}
	kept, err := os.ReadDir(dir)
	if err != nil {
		return path, true, fmt.Errorf("save bad plan: %w", err)
	}
	if len(kept) >= maxBadPlans {
		return dir + " (full: remove old ones)", false, nil
	}
	text, err := json.MarshalIndent(b, "", " ")
	if err != nil {
		return path, true, fmt.Errorf("save bad plan: %w", err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return path, true, fmt.Errorf("save bad plan: %w", err)
	}
	return path, true, nil
}

// Limits of what one cycle explains, in verdicts of a pool on a pod shape: minVerdicts in any case, maxVerdicts if
// nothing changes meanwhile. The former delay new pods by less time than their own plan takes.
const (
	minVerdicts = 2_000
	maxVerdicts = 200_000
)

// explain adds Reasons to the pods without a place, after all decisions have been applied. It stops when something
// changes: new pods are answered first, and the rest is explained after the next plan.
func (x *Driver) explain(s *model.Snapshot, plan model.Plan) model.Plan {
	if x.o.Explain == nil || len(plan.Unplaced) == 0 {
		return plan
	}
	goOn := func(verdicts int) bool {
		return verdicts < minVerdicts || verdicts < maxVerdicts && len(x.o.State.Changed()) == 0
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
		x.o.Log.Error("cannot explain why pods are pending; please report this", "wrong", v.wrong)
	}
	return plan
}
