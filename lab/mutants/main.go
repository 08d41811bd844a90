// Command mutants plants faults in the code, one at a time, and reports those that no test detects: `make mutants`.
//
// The faults are listed in this folder, in one list for each part of the product. A mutant is a block of lines:
//
//	mutant the eviction has no UID precondition
//	file   controller/nodeclaim/drain.go
//	test   controller/nodeclaim TestEvict
//	-      Preconditions: &metav1.Preconditions{UID: &pod.UID},
//	+
//
// It replaces the text of the lines that begin with - with that of the lines that begin with +. The text must occur
// in the file exactly once; indentation is ignored. Each test line names a package and, if not all of its tests are
// needed, a pattern for the tests (as for go test -run). Choose a fault that a programmer might really introduce and
// that would do harm, and tests that take seconds.
//
// The source tree is never changed: go test -overlay reads the mutant instead of the file. A mutant that no test
// detects has survived: write a test. A mutant that does not compile, or whose text no longer occurs, is an error in
// the list.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutants", flag.ExitOnError)
	tenth := flags.String("tenth", "", "plant a tenth of the list: a number from 1 to 10, or today for the day's")
	only := flags.String("only", "", "plant the mutants whose names or files match this regular expression")
	limit := flags.Duration("timeout", time.Minute, "time limit of a package's tests; a mutant that exceeds it is killed")
	tested := flags.Bool("tested", false,
		"the tests have just passed on the tree as it is: do not run them without mutants")
	if err := flags.Parse(args); err != nil {
		return err
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	all, err := readLists()
	if err != nil {
		return err
	}
	ms, err := choose(all, *tenth, *only, time.Now().UTC())
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d of %d mutants\n", len(ms), len(all))
	r := &runner{root: root, limit: *limit}
	if !*tested {
		fmt.Fprintln(out, "first their tests without any mutant")
		if err := r.sound(ctx, ms); err != nil {
			return err
		}
	}
	return r.all(ctx, ms, out)
}

// all tries the mutants one after another. It returns an error if one survives or cannot be tried.
func (r *runner) all(ctx context.Context, ms []mutant, out io.Writer) error {
	survivors, errs := 0, []error(nil)
	for _, m := range ms {
		v := r.try(ctx, m)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		fmt.Fprintln(out, v.text())
		switch {
		case v.err != nil:
			errs = append(errs, v.err)
		case v.pkg == "":
			survivors++
		}
	}
	if survivors > 0 {
		errs = append(errs, fmt.Errorf("%d of %d survived: write the tests that notice them", survivors, len(ms)))
	}
	return errors.Join(errs...)
}

// text formats the verdict on one line, followed by details if the mutant survived.
func (v verdict) text() string {
	switch {
	case v.err != nil:
		return "error     " + v.name
	case v.pkg != "":
		return fmt.Sprintf("killed    %s: %s %s, %.1fs", v.name, v.pkg, v.by(), v.took.Seconds())
	}
	lines := []string{fmt.Sprintf("SURVIVED  %s (%s): %s:%d, %.1fs", v.name, v.at, v.file, v.line, v.took.Seconds())}
	for _, l := range v.old {
		lines = append(lines, "          - "+l)
	}
	for _, l := range v.new {
		lines = append(lines, "          + "+l)
	}
	for _, t := range v.tests {
		lines = append(lines, strings.TrimRight("          passed: "+t.pkg+" "+t.run, " "))
	}
	return strings.Join(lines, "\n")
}

// choose returns the requested mutants. Each mutant is in one tenth of the list; neighbours are in different tenths.
func choose(all []mutant, tenth, only string, now time.Time) ([]mutant, error) {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	n := 0
	switch {
	case tenth == "today":
		n = now.YearDay()%10 + 1
	case tenth != "":
		if n, err = strconv.Atoi(tenth); err != nil || n < 1 || n > 10 {
			return nil, fmt.Errorf("-tenth: want a number from 1 to 10 or today, not %q", tenth)
		}
	}
	var out []mutant
	for i, m := range all {
		if (n == 0 || i%10 == n-1) && (pattern.MatchString(m.name) || pattern.MatchString(m.file)) {
			out = append(out, m)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no mutant is named like %q, or is of such a file", only)
	}
	return out, nil
}

// moduleRoot returns the folder of the current module.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}
