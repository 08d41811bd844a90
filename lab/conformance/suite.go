package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/onsi/ginkgo/v2/types"
)

// suite is one of Karpenter's suites.
type suite struct {
	name      string
	title     string // prefix of the texts that a focus is matched against
	instances int
	focus     string   // the default
	known     string   // table of known facts about its specs
	settings  []string // of the controller, in addition to the common ones
	metrics   int      // metrics port of the controller: regression's chaos specs listen on 8080
}

//go:embed regression.tsv
var regressionTable string

//go:embed performance.tsv
var performanceTable string

var suites = map[string]suite{
	"regression": {name: "regression", title: "Regression", instances: 4, known: regressionTable, metrics: 18080},
	// The suite measures the controller's memory and CPU, so nothing else runs at the same time.
	"performance": {
		name: "performance", title: "Performance", instances: 1, known: performanceTable, metrics: 8080,
		// Two Deployments create pods one by one: Karpenter's batching window makes one plan for many of them.
		settings: []string{"BATCH_IDLE_DURATION=1s", "BATCH_MAX_DURATION=10s"},
		focus:    "Basic Deployment|Wide Deployments|Host Name Spreading Deployment Reg|Drift Performance",
	},
}

// spec is one of a suite's tests.
type spec struct {
	text    string  // of its containers and of itself
	seconds float64 // expected duration
	peer    string  // result with Karpenter itself
	fast    bool    // whether CI runs it
}

// binary is the suite's test program.
func (o options) binary() string { return filepath.Join(o.root, "bin", o.suite.name+".test") }

// build compiles the suite's test program from the module that go.mod names.
func (o options) build(ctx context.Context) error {
	c := exec.CommandContext(ctx, "go", "test", "-C", filepath.Join(o.root, "lab", "conformance"), "-c", "-o", o.binary(),
		"sigs.k8s.io/karpenter/test/suites/"+o.suite.name)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("build the %s suite: %w\n%s", o.suite.name, err, out)
	}
	return nil
}

// list returns the selected specs of the test program, the longest first, so that the last ones to start end soon
// after the others.
func (o options) list(ctx context.Context) ([]spec, error) {
	report := filepath.Join(o.dir(), "list.json")
	c := exec.CommandContext(ctx, o.binary(), "--ginkgo.dry-run", "--ginkgo.json-report="+report)
	if out, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("list the specs of the %s suite: %w\n%s", o.suite.name, err, out)
	}
	reports, err := readReport(report)
	if err != nil {
		return nil, err
	}
	known, err := o.suite.table()
	if err != nil {
		return nil, err
	}
	var specs []spec
	for _, r := range reports {
		if r.LeafNodeType != types.NodeTypeIt {
			continue
		}
		s, ok := known[r.FullText()]
		if !ok {
			s = spec{text: r.FullText(), seconds: 60}
		}
		if o.focus.MatchString(s.text) && (o.skip == nil || !o.skip.MatchString(s.text)) && (!o.fast || s.fast) {
			specs = append(specs, s)
		}
	}
	slices.SortStableFunc(specs, func(a, b spec) int { return cmp.Compare(b.seconds, a.seconds) })
	return specs, nil
}

// table parses lines of: text, expected seconds, Karpenter's own result, "fast" or nothing.
func (s suite) table() (map[string]spec, error) {
	known := map[string]spec{}
	for line := range strings.Lines(s.known) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(f) < 3 {
			return nil, fmt.Errorf("%s.tsv: %q has no three columns", s.name, line)
		}
		seconds, err := strconv.ParseFloat(f[1], 64)
		if err != nil {
			return nil, fmt.Errorf("%s.tsv: %q: %w", s.name, line, err)
		}
		known[f[0]] = spec{text: f[0], seconds: seconds, peer: f[2], fast: len(f) > 3 && f[3] == "fast"}
	}
	return known, nil
}

// readReport returns the reports on the specs and the nodes around them.
func readReport(path string) (types.SpecReports, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	var suites []types.Report
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&suites); err != nil {
		return nil, fmt.Errorf("report %s: %w", path, err)
	}
	var all types.SpecReports
	for _, s := range suites {
		all = append(all, s.SpecReports...)
	}
	return all, nil
}
