package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// saveResults keeps the results for programs.
func saveResults(dir string, results []result) error {
	data, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "results.json"), append(data, '\n'), 0o600)
}

// document replaces the suite's table in docs/conformance.md. Part of a suite makes no table.
func (c *conformance) document() error {
	known, err := c.suite.table()
	if err != nil {
		return err
	}
	if len(c.results) < len(known) {
		return fmt.Errorf("-write: only %d of %d specs were run; leave -focus, -skip and -fast out", len(c.results), len(known))
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

// specTable has a line for each spec.
func (c *conformance) specTable(known map[string]spec) string {
	var b strings.Builder
	passed := 0
	var sum time.Duration
	for _, r := range c.results {
		if r.Passed {
			passed++
		}
		sum += r.Took
	}
	fmt.Fprintf(&b, "%d of %d passed on %s: %.0f s of specs in %.0f minutes, %d clusters side by side.\n\n",
		passed, len(c.results), time.Now().UTC().Format("2 January 2006"), sum.Seconds(), time.Since(c.began).Minutes(), c.instances)
	b.WriteString("| spec | Nodeless | seconds | Karpenter |\n|---|---|---:|---|\n")
	for _, r := range c.results {
		fmt.Fprintf(&b, "| %s | %s | %.1f | %s |\n", r.Spec, verdict(r.Passed), r.Took.Seconds(), known[r.Spec].peer)
	}
	return b.String()
}

func verdict(passed bool) string {
	if passed {
		return "passed"
	}
	return "**failed**"
}
