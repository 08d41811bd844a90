package engine_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/check"
	"github.com/nodeless/nodeless/lab/scenario"
)

var (
	update  = flag.Bool("update", false, "rewrite what the scenarios of testdata expect")
	pending = flag.Bool("pending", false, "run those of testdata/pending too, which are not right yet")
)

const dashes = "\n----------\n"

// Each scenario is a cluster above a line of dashes, and below it the plans of Provision and Disrupt. Package
// scenario documents the format.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 25 {
		t.Fatalf("%d scenarios, %v; want 25 or more", len(files), err)
	}
	if *pending {
		more, err := filepath.Glob("testdata/pending/*.txt")
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { runScenario(t, file) })
	}
}

func runScenario(t *testing.T, file string) {
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cluster, want, _ := strings.Cut(string(raw), dashes)
	s, policy, err := scenario.Parse(cluster)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	provision, disrupt := engine.Provision(s, policy), engine.Disrupt(s, policy)
	violations := append(check.Plan(s, policy, provision), check.Plan(s, policy, disrupt)...)
	for _, v := range append(violations, check.Answered(s, provision)...) {
		t.Error(v.Error())
	}
	got := scenario.FormatPlan(s, provision)
	if len(s.Nodes) > 0 {
		got += "then\n" + scenario.FormatPlan(s, disrupt)
	}
	if *update {
		if err := os.WriteFile(file, []byte(strings.TrimRight(cluster, "\n")+"\n"+dashes[1:]+got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("%s:\n--- got\n%s--- want\n%s", file, got, want)
	}
}
