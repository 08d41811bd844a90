package engine_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"runtime"
	"testing"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/gen"
	"github.com/nodeless/nodeless/lab/scenario"
)

// bothPlans returns the plans of Provision and Disrupt as JSON.
func bothPlans(t *testing.T, s *model.Snapshot, policy model.Policy) []byte {
	t.Helper()
	text, err := json.Marshal([]model.Plan{engine.Provision(s, policy), engine.Disrupt(s, policy)})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// samples returns snapshots of every kind, with policies.
func samples() (snapshots []*model.Snapshot, policies []model.Policy) {
	add := func(s *model.Snapshot, p model.Policy) {
		snapshots, policies = append(snapshots, s), append(policies, p)
	}
	for seed := range uint64(12) {
		add(gen.Random(seed), model.Policy{})
		add(gen.Constrained(seed), gen.Policy(seed))
		add(gen.Disruptive(seed), gen.DisruptionPolicy(seed))
	}
	add(gen.Large(200, 20), model.Policy{})
	add(gen.Diverse(100, 60), model.Policy{})
	return snapshots, policies
}

// little returns samples small enough to plan a hundred times quickly.
func little() (snapshots []*model.Snapshot, policies []model.Policy) {
	add := func(s *model.Snapshot, p model.Policy) {
		snapshots, policies = append(snapshots, s), append(policies, p)
	}
	for seed := range uint64(6) {
		add(gen.Random(seed), model.Policy{MaxSteps: 20_000})
		add(gen.Constrained(seed), gen.Policy(seed))
		add(gen.Disruptive(seed), gen.DisruptionPolicy(seed))
	}
	add(gen.Large(30, 4), model.Policy{})
	add(gen.Diverse(30, 20), model.Policy{})
	return snapshots, policies
}

func TestPlanIsDeterministic(t *testing.T) {
	snapshots, policies := little()
	for i, s := range snapshots {
		first := bothPlans(t, s, policies[i])
		for run := range 100 {
			if again := bothPlans(t, s, policies[i]); !bytes.Equal(again, first) {
				t.Fatalf("sample %d, run %d: another plan:\n%s\n%s", i, run, first, again)
			}
		}
	}
}

func TestPlanIsTheSameOnEveryPlatform(t *testing.T) {
	snapshots, policies := samples()
	for i, s := range snapshots {
		first := bothPlans(t, s, policies[i])
		for _, cores := range []int{1, 2, 8} {
			before := runtime.GOMAXPROCS(cores)
			again := bothPlans(t, s, policies[i])
			runtime.GOMAXPROCS(before)
			if !bytes.Equal(again, first) {
				t.Fatalf("sample %d on %d cores: another plan:\n%s\n%s", i, cores, first, again)
			}
		}
	}
}

func TestPlanIgnoresTheOrderOfItsInput(t *testing.T) {
	snapshots, policies := samples()
	for i, s := range snapshots {
		first := bothPlans(t, s, policies[i])
		for seed := range uint64(5) {
			shuffled := model.Canonical(gen.Shuffle(s, seed))
			if again := bothPlans(t, shuffled, policies[i]); !bytes.Equal(again, first) {
				t.Fatalf("sample %d, order %d: another plan:\n%s\n%s", i, seed, first, again)
			}
		}
	}
}

func TestPlanIsTheSameAfterJSON(t *testing.T) {
	snapshots, policies := samples()
	for i, s := range snapshots {
		first := bothPlans(t, s, policies[i])
		var file bytes.Buffer
		if err := json.NewEncoder(&file).Encode(scenario.Case{Snapshot: s, Policy: policies[i]}); err != nil {
			t.Fatal(err)
		}
		c, err := scenario.ReadJSON(&file)
		if err != nil {
			t.Fatal(err)
		}
		if again := bothPlans(t, c.Snapshot, c.Policy); !bytes.Equal(again, first) {
			t.Fatalf("sample %d as JSON: another plan:\n%s\n%s", i, first, again)
		}
	}
}

// The engine also runs in a browser, so nothing in it may need an operating system.
func TestEngineBuildsForTheBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the standard library for another machine")
	}
	build := exec.Command("go", "build", "./...")
	build.Env = append(build.Environ(), "GOOS=js", "GOARCH=wasm")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("GOOS=js GOARCH=wasm go build: %v\n%s", err, out)
	}
}
