package engine_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/engine"
	"github.com/nodeless/nodeless/engine/check"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/scenario"
)

// manyPods matches texts whose plan takes long.
var manyPods = regexp.MustCompile(`pods\s+\+?[0-9]{3}`)

// Whatever cluster a text describes, there is a plan for it, and the plan can be checked and formatted.
func FuzzEngine(f *testing.F) {
	for _, pattern := range []string{"testdata/*.txt", "testdata/pending/*.txt"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			cluster, _, _ := strings.Cut(string(raw), dashes)
			f.Add(cluster)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 3000 || strings.Count(text, "\n") > 60 || manyPods.MatchString(text) {
			t.Skip("takes long")
		}
		s, policy, err := scenario.Parse(text)
		if err != nil {
			t.Skip("not a cluster")
		}
		if policy.MaxSteps <= 0 || policy.MaxSteps > 100 {
			policy.MaxSteps = 100
		}
		for _, plan := range []model.Plan{engine.Provision(s, policy), engine.Disrupt(s, policy)} {
			for _, v := range check.Plan(s, policy, plan) {
				t.Error(v.Error())
			}
			if scenario.FormatPlan(s, plan) == "" {
				t.Error("a plan without words")
			}
		}
	})
}
