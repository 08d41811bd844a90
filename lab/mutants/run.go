package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// runner runs the tests of one module.
type runner struct {
	root  string
	limit time.Duration // for a package's tests on a mutant, without compilation
}

// outcome is the outcome of tests.
type outcome struct {
	failed string // the first test that failed; empty if all passed
	hung   bool   // it did not end in time
}

const (
	compileLimit = 20 * time.Minute // for what go test does before the tests, on a busy machine with a cold cache
	soundLimit   = 20 * time.Minute // for a package's tests without a mutant
)

// test runs tests of a package on the source tree with the overlay, if there is one. An error means that the tests
// could not run.
func (r *runner) test(ctx context.Context, overlay string, t tests, limit time.Duration) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, compileLimit+limit)
	defer cancel()
	args := []string{"test", "-json", "-vet=off", "-failfast", "-timeout", limit.String()}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	if t.run != "" {
		args = append(args, "-run", t.run)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+t.pkg)...)
	cmd.Dir = r.root
	// The tests and the processes they start form one process group and are killed together.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if ctx.Err() != nil {
		return outcome{}, fmt.Errorf("test %s: %w", t.pkg, context.Cause(ctx))
	}
	if err == nil {
		return outcome{}, nil
	}
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
		return outcome{}, fmt.Errorf("test %s: %w", t.pkg, err)
	}
	return read(t.pkg, stdout, stderr.String())
}

// event is a line of go test -json; see go doc test2json.
type event struct{ Action, Test, Output, FailedBuild string }

// read derives the outcome from the output of a failed go test.
func read(pkg string, stdout []byte, stderr string) (outcome, error) {
	var out outcome
	var text strings.Builder
	panicked := false
	lines := bufio.NewScanner(bytes.NewReader(stdout))
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			continue // printed by a test outside its log
		}
		text.WriteString(e.Output)
		switch {
		case e.FailedBuild != "":
			return outcome{}, fmt.Errorf("%s does not compile:\n%s", pkg, tail(text.String()+stderr))
		case e.Action == "output" && strings.HasPrefix(e.Output, "panic: test timed out"):
			out.hung = true
		case e.Action == "output" && (strings.HasPrefix(e.Output, "panic: ") || strings.HasPrefix(e.Output, "fatal error: ")):
			panicked = true
		case e.Action == "fail" && e.Test != "" && (out.failed == "" || strings.HasPrefix(e.Test, out.failed+"/")):
			out.failed = e.Test
		}
	}
	if err := lines.Err(); err != nil {
		return outcome{}, err
	}
	switch {
	case out.failed != "" || out.hung:
		return out, nil
	case panicked:
		return outcome{failed: "a panic"}, nil
	}
	return outcome{}, fmt.Errorf("%s failed, but no test of it did:\n%s", pkg, tail(text.String()+stderr))
}

// tail returns the end of a command's output, long enough to show what went wrong.
func tail(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return "\t" + strings.Join(lines[max(0, len(lines)-15):], "\n\t")
}

// verdict is the result of trying a mutant.
type verdict struct {
	mutant
	line int
	outcome
	pkg  string // whose tests detected the mutant
	took time.Duration
	err  error // in the list or on the machine: nothing is known about the mutant
}

// try plants a mutant and runs its tests until one detects it.
func (r *runner) try(ctx context.Context, m mutant) (v verdict) {
	start := time.Now()
	v.mutant = m
	defer func() { v.took = time.Since(start) }()
	var source string
	if source, v.line, v.err = m.plant(r.root); v.err != nil {
		return v
	}
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		v.err = err
		return v
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := writeOverlay(dir, filepath.Join(r.root, m.file), source)
	if err != nil {
		v.err = err
		return v
	}
	for _, t := range m.tests {
		if v.outcome, err = r.test(ctx, overlay, t, r.limit); err != nil {
			v.err = fmt.Errorf("%s: mutant %q: %w", m.at, m.name, err)
			return v
		}
		if v.failed != "" || v.hung {
			v.pkg = t.pkg
			return v
		}
	}
	return v
}

// writeOverlay writes the source, and the overlay file with which go test reads it in place of the file.
func writeOverlay(dir, file, source string) (string, error) {
	planted := filepath.Join(dir, filepath.Base(file))
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {file: planted}})
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, "overlay.json")
	return out, errors.Join(os.WriteFile(planted, []byte(source), 0o600), os.WriteFile(out, overlay, 0o600))
}

// sound runs the mutants' tests on the unmodified source tree: if they fail there, a failure proves nothing.
func (r *runner) sound(ctx context.Context, ms []mutant) error {
	for _, t := range merge(ms) {
		out, err := r.test(ctx, "", t, soundLimit)
		if err != nil {
			return err
		}
		if out.failed != "" || out.hung {
			return fmt.Errorf("%s fails without any mutant: %s", t.pkg, out.by())
		}
	}
	return nil
}

// merge returns the tests of all mutants, with each package once.
func merge(ms []mutant) []tests {
	var out []tests
	for _, m := range ms {
		for _, t := range m.tests {
			i := slices.IndexFunc(out, func(o tests) bool { return o.pkg == t.pkg })
			switch {
			case i < 0:
				out = append(out, t)
			case out[i].run == "" || t.run == "":
				out[i].run = ""
			case !regexp.MustCompile(`(^|\|)` + regexp.QuoteMeta(t.run) + `($|\|)`).MatchString(out[i].run):
				out[i].run += "|" + t.run
			}
		}
	}
	return out
}

// by returns the test that detected the mutant.
func (o outcome) by() string {
	switch {
	case !o.hung:
		return o.failed
	case o.failed == "":
		return "timed out"
	}
	return o.failed + ", timed out"
}
