package scenario

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/lab/gen"
)

func TestACaseComesBackAsItWas(t *testing.T) {
	for seed := range uint64(50) {
		c := Case{Snapshot: gen.Constrained(seed), Policy: gen.Policy(seed), Notes: []string{"limit: pool small"}}
		var b bytes.Buffer
		if err := json.NewEncoder(&b).Encode(c); err != nil {
			t.Fatal(err)
		}
		first := b.String()
		back, err := ReadJSON(&b)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		var again bytes.Buffer
		if err := json.NewEncoder(&again).Encode(back); err != nil || again.String() != first {
			t.Fatalf("seed %d: the case changed on its way, %v", seed, err)
		}
		if !reflect.DeepEqual(back.Notes, c.Notes) {
			t.Fatalf("notes %v", back.Notes)
		}
	}
}

func TestBadCasesAreRefused(t *testing.T) {
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

func TestBadScenariosNameLineAndField(t *testing.T) {
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
		"policy largest(gpus=1)":          "gpus",
		"policy performance(m8g)":         "performance(m8g)",
		"policy cutoff=low":               "cutoff=low",
		"policy verbose":                  `unknown field "verbose"`,
	} {
		if _, _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want it to name %s", text, err, want)
		}
	}
}
