package scenario

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/lab/gen"
)

// content returns a case as text, in which nil equals an empty list, and invalid UTF-8, which JSON cannot represent,
// equals its replacement.
func content(t *testing.T, c Case) string {
	t.Helper()
	raw, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer(": []", ": null", `\ufffd`, "\ufffd").Replace(string(raw))
}

// comesBack fails the test unless the case is the same after it was saved and read.
func comesBack(t *testing.T, c Case) {
	t.Helper()
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	back, err := ReadJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatalf("%v in\n%s", err, raw)
	}
	want, got := strings.Split(content(t, c), "\n"), strings.Split(content(t, back), "\n")
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			from := max(0, i-12)
			t.Fatalf("changed, line %d:\n%s\n--- want\n%s", i, strings.Join(got[from:i+1], "\n"), want[i])
		}
	}
	if len(want) != len(got) {
		t.Fatalf("%d lines, want %d", len(got), len(want))
	}
}

func TestRandomSnapshotsComeBackFromJSON(t *testing.T) {
	notes := []string{"limit: pool small"}
	for seed := range uint64(150) {
		comesBack(t, Case{Snapshot: gen.Random(seed), Notes: notes})
		comesBack(t, Case{Snapshot: gen.Constrained(seed), Policy: gen.Policy(seed)})
		comesBack(t, Case{Snapshot: gen.Disruptive(seed), Policy: gen.DisruptionPolicy(seed)})
	}
	comesBack(t, Case{Snapshot: gen.Diverse(500, 50)})
}

func TestScenariosComeBackFromJSON(t *testing.T) {
	files, err := filepath.Glob("../../engine/testdata/*.txt")
	more, _ := filepath.Glob("../../engine/testdata/pending/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, file := range append(files, more...) {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		cluster, _, _ := strings.Cut(string(raw), "\n-----")
		s, policy, err := Parse(cluster)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		comesBack(t, Case{Snapshot: s, Policy: policy})
	}
}

func TestInvalidCases(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "EOF",
		"{}":                            "Snapshot is missing",
		`{"Snapshots":{}}`:              "Snapshots",
		`{"Snapshot":{"Pending":[{}]}}`: "Pending[0].Shape",
		`{"Snapshot":{"Nodes":[{"Pods":[{"Shape":3}]}]}}`: "Nodes[0].Pods[0].Shape",
	} {
		if _, err := ReadJSON(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want it to name %s", text, err, want)
		}
	}
}

func TestParseErrorsNameLineAndField(t *testing.T) {
	for text, want := range map[string]string{
		"\npods x web":                    "line 2: pods x",
		"pods 1":                          "a name",
		"pods 1 web cpu=lots":             "cpu",
		"pods 1 web cpus=1":               `unknown field "cpus"`,
		"pods 1 web require(cores>many)":  "cores>many",
		"pods 1 web require(a":            "bracket",
		"pool p types(c9)":                "c9",
		"pool p limit(cpu=x)":             "cpu",
		"pool p disrupt(maybe)":           "maybe",
		"type t offers(a spot)":           "offer",
		"type t offers(a spot cheap)":     "cheap",
		"node n state=asleep":             "asleep",
		"node n taint(gpu)":               "gpu",
		"cluster x":                       "unknown declaration",
		"pods 1 a cpu=1\npods 1 a cpu=2":  "line 2: pods 1: shape a is declared twice",
		"pods 1 a affinity(app=web)":      "affinity(app=web): want a topology key",
		"pods 1 a anti(zone rack: *)":     "one topology key",
		"pods 1 a affinity(zone: * in {)": "one may be {requirements}",
		"pods 1 a affinity(zone: a b)":    `"a b" is not a label key`,
		"pods 1 a prefer-pods(zone: *)":   "want a weight",
		"pods 1 a spread(zone skew=x: *)": "skew=x",
		"pods 1 a spread(zone hard: *)":   "hard: unknown word",
		"pods 1 a ports(http)":            "http is not a port",
		"pods 1 a volume(d size=1)":       "size=1: unknown word",
		"pods 1 a labels(app)":            `label "app"`,
		"pods 1 a priority=high":          "priority=high",
		"pods 1 a as=b":                   "as=b: no such shape",
		"pods 1 a blocked(\"why)":         "the quote is not closed",
		"pod a/b age=old":                 "age=old",
		"node n runs(a as b)":             "as=b",
		"node n runs(a daemons)":          "daemons: unknown word",
		"node n attach(ebs)":              "attach(ebs)",
		"node n price=NaN":                "NaN",
		"policy solver=best":              "solver=best",
		"policy preferences=maybe":        "preferences=maybe",
		"policy cutoff=low":               "cutoff=low",
		"policy verbose":                  `unknown field "verbose"`,
	} {
		if _, _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want it to name %s", text, err, want)
		}
	}
}
