package engine_test

import (
	"encoding/json"
	"testing"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/check"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/lab/gen"
)

// seeds is the number of seeds of each generator; every fourth is planned again, in the same and in another order.
const seeds = 5000

// judge checks the engine's plans for a snapshot and returns them as JSON.
func judge(t *testing.T, seed uint64, s *model.Snapshot, policy model.Policy) string {
	t.Helper()
	provision, disrupt := engine.Provision(s, policy), engine.Disrupt(s, policy)
	for _, plan := range []model.Plan{provision, disrupt} {
		for _, v := range check.Plan(s, policy, plan) {
			if v.Unproven && len(plan.Commands) > 0 && len(plan.Commands)+len(s.Pending) > 1 {
				continue // a command that depends on another or on pending pods is checked again before it is applied
			}
			t.Errorf("seed %d: %s", seed, v.Error())
		}
	}
	for _, v := range check.Answered(s, provision) {
		t.Errorf("seed %d: %s", seed, v.Error())
	}
	for _, u := range provision.Unplaced {
		if u.Reason.Rule == model.RuleSteps && !provision.Partial {
			t.Errorf("seed %d: pod %s: the search was not cut, but is the reason", seed, u.Pod.Name)
		}
		if reason.Pod(u.Reason) == "" {
			t.Errorf("seed %d: pod %s: no sentence for %+v", seed, u.Pod.Name, u.Reason)
		}
	}
	text, err := json.Marshal([]model.Plan{provision, disrupt})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEveryPlanKeepsEveryPromise(t *testing.T) {
	for seed := range uint64(seeds) {
		s := gen.Random(seed)
		once := judge(t, seed, s, model.Policy{})
		if t.Failed() {
			return
		}
		if seed%4 > 0 {
			continue
		}
		if again := judge(t, seed, s, model.Policy{}); again != once {
			t.Fatalf("seed %d: two plans for one snapshot:\n%s\n%s", seed, once, again)
		}
		shuffled := model.Canonical(gen.Shuffle(s, seed))
		if other := judge(t, seed, shuffled, model.Policy{}); other != once {
			t.Fatalf("seed %d: another order gives another plan:\n%s\n%s", seed, once, other)
		}
		if t.Failed() {
			return
		}
	}
}

func TestPlansToDisruptKeepEveryPromise(t *testing.T) {
	commands := map[model.Method]int{}
	for seed := range uint64(seeds) {
		s, policy := gen.Disruptive(seed), gen.DisruptionPolicy(seed)
		once := judge(t, seed, s, policy)
		for _, c := range engine.Disrupt(s, policy).Commands {
			commands[c.Method]++
		}
		if t.Failed() {
			return
		}
		if seed%4 > 0 {
			continue
		}
		if other := judge(t, seed, model.Canonical(gen.Shuffle(s, seed)), policy); other != once {
			t.Fatalf("seed %d: another order gives another plan:\n%s\n%s", seed, once, other)
		}
	}
	if commands[model.Drifted] < 500 || commands[model.Underutilized] < 250 || commands[model.Expired] < 50 ||
		commands[model.CrowdedOut] < 20 {
		t.Errorf("only %v commands", commands)
	}
}

func TestPartialPlansKeepEveryPromise(t *testing.T) {
	for seed := range uint64(300) {
		policy := model.Policy{MaxSteps: 1 + int(seed)%40, MaxTypes: 1 + int(seed)%5}
		judge(t, seed, gen.Random(seed), policy)
		constrained := gen.Policy(seed)
		constrained.MaxSteps = policy.MaxSteps
		judge(t, seed, gen.Constrained(seed), constrained)
	}
}

func TestPlansOfConstrainedPodsKeepEveryPromise(t *testing.T) {
	for seed := range uint64(seeds) {
		s, policy := gen.Constrained(seed), gen.Policy(seed)
		once := judge(t, seed, s, policy)
		if t.Failed() {
			return
		}
		if seed%4 > 0 {
			continue
		}
		if other := judge(t, seed, model.Canonical(gen.Shuffle(s, seed)), policy); other != once {
			t.Fatalf("seed %d: another order gives another plan:\n%s\n%s", seed, once, other)
		}
		if t.Failed() {
			return
		}
	}
}

// What pods prefer may not change which nodes kube-scheduler counts for their spreads: pods on nodes that they would not
// prefer count.
func TestPlansOfPodsThatPreferKeepEveryPromise(t *testing.T) {
	for seed := range uint64(300) {
		s := gen.Preferring(seed)
		for _, policy := range []model.Policy{{}, {Preferences: model.Respect}, {Solver: model.FirstFit}} {
			for _, v := range check.Plan(s, policy, engine.Provision(s, policy)) {
				t.Errorf("seed %d, preferences %q: %s", seed, policy.Preferences, v.Error())
			}
		}
		if t.Failed() {
			return
		}
	}
}
