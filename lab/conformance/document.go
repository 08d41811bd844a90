package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// saveResults saves the results as JSON.
func saveResults(dir string, results []result) error {
	data, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "results.json"), append(data, '\n'), 0o600)
}

// document replaces the suite's table in docs/conformance.md. It fails if only part of the suite was run.
func (c *conformance) document() error {
	known, err := c.suite.table()
	if err != nil {
		return err
	}
	if len(c.results) < len(known) {
		return fmt.Errorf("-write: only %d of %d specs were run; leave -focus, -skip and -fast out", len(c.results),
			len(known))
	}
	name := c.name()
	table := c.specTable(known)
	if c.suite.name == "performance" {
		if table, err = performanceTableOf(c.results); err != nil {
			return err
		}
	}
	path := filepath.Join(c.root, "docs", "conformance.md")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := "<!-- "+name+" -->\n", "<!-- end "+name+" -->"
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return errors.New(path + ": there is no place for the table " + name)
	}
	return os.WriteFile(path, []byte(before+begin+table+end+after), 0o644) //nolint:gosec // a document
}

// specTable returns a table with a line for each group of specs (the first word of their names), followed by the
// failed specs.
func (c *conformance) specTable(known map[string]spec) string {
	type group struct {
		name                string
		specs, passed, peer int
		took                time.Duration
	}
	var groups []group
	var failed []string
	total := group{name: "all"}
	for _, r := range c.results {
		name, _, _ := strings.Cut(r.Spec, " ")
		i := slices.IndexFunc(groups, func(g group) bool { return g.name == name })
		if i < 0 {
			i, groups = len(groups), append(groups, group{name: name})
		}
		for _, g := range []*group{&groups[i], &total} {
			g.specs++
			g.took += r.Took
			if r.Passed {
				g.passed++
			}
			if known[r.Spec].peer == "passed" {
				g.peer++
			}
		}
		if !r.Passed {
			failed = append(failed, r.Spec)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d passed on %s: %.0f s of specs in %.0f minutes, %d clusters side by side.\n\n",
		total.passed, total.specs, time.Now().UTC().Format("2 January 2006"), total.took.Seconds(),
		time.Since(c.began).Minutes(), c.instances)
	b.WriteString("| specs | Nodeless | seconds | Karpenter |\n|---|---:|---:|---:|\n")
	for _, g := range append(groups, total) {
		fmt.Fprintf(&b, "| %s | %d of %d | %.0f | %d |\n", g.name, g.passed, g.specs, g.took.Seconds(), g.peer)
	}
	for _, name := range failed {
		fmt.Fprintf(&b, "\nFailed: %s\n", name)
	}
	return b.String()
}

func verdict(passed bool) string {
	if passed {
		return "passed"
	}
	return "**failed**"
}
