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
	limit time.Duration // of a package's tests on a mutant, without compiling them
}

// outcome is what tests say of a tree.
type outcome struct {
	failed string // the first test that failed; empty if all passed
	hung   bool   // it did not end in time
}

const (
	compileLimit = 20 * time.Minute // of what go test does before the tests, on a busy machine with a cold cache
	soundLimit   = 20 * time.Minute // of a package's tests without any mutant
)

// test runs tests of a package on the tree with that overlay, none if it is empty. An error says that the tests could
// not run.
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
	// What the tests start ends with them: all of it is one process group.
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

// read makes an outcome of what go test printed when something failed.
func read(pkg string, stdout []byte, stderr string) (outcome, error) {
	var out outcome
	var text strings.Builder
	panicked := false
	lines := bufio.NewScanner(bytes.NewReader(stdout))
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			continue // what a test prints beside its log
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

// tail is the end of what a command printed, enough to see what it was about.
func tail(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return "\t" + strings.Join(lines[max(0, len(lines)-15):], "\n\t")
}

// verdict is what became of a mutant.
type verdict struct {
	mutant
	line int
	outcome
	pkg  string // whose tests noticed it
	took time.Duration
	err  error // of the list or of the machine: nothing is known about the mutant
}

// try plants a mutant and runs its tests until one notices.
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

// writeOverlay writes the source and what go test -overlay reads to have it in the file's place.
func writeOverlay(dir, file, source string) (string, error) {
	planted := filepath.Join(dir, filepath.Base(file))
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {file: planted}})
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, "overlay.json")
	return out, errors.Join(os.WriteFile(planted, []byte(source), 0o600), os.WriteFile(out, overlay, 0o600))
}

// sound runs the tests of the mutants on the tree as it is: where they fail by themselves, a failure proves nothing.
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

// merge gives the tests of all mutants, each package once.
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

// by says which test noticed.
func (o outcome) by() string {
	switch {
	case !o.hung:
		return o.failed
	case o.failed == "":
		return "timed out"
	}
	return o.failed + ", timed out"
}
