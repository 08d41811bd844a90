package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nodeless/nodeless/lab/process"
)

// options of a run.
type options struct {
	root, nodeless string // the repository, and the program under test
	dir            string // of programs, images, logs and the report
	focus, skip    string // regular expressions
	part, parts    int    // only one part of the specs; parts is 0 for all
	procs          int    // specs at a time
	limit          time.Duration
}

// defaultFocus selects the specs that every node must pass, and those of Kubernetes' conformance programme.
const defaultFocus = `\[NodeConformance\]|\[Conformance\]`

// defaultSkip excludes specs that change the whole cluster, take long, or need optional features.
const defaultSkip = `\[Serial\]|\[Disruptive\]|\[Slow\]|\[Feature:`

// serialFocus and serialSkip select, with -serial, the specs of defaultFocus that change the whole cluster or take
// long.
const (
	serialFocus = `\[(Serial|Slow)\].*\[(Node)?Conformance\]|\[(Node)?Conformance\].*\[(Serial|Slow)\]`
	serialSkip  = `\[Disruptive\]|\[Feature:`
)

func main() { process.Main("nodeconform", run) }

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if os.Getenv(insideVariable) == "" {
		if err := o.build(ctx); err != nil {
			return err
		}
		return enterOwnNetwork(ctx, args)
	}
	if err := furnishNetwork(); err != nil {
		return err
	}
	return o.conform(ctx)
}

func parse(args []string) (o options, err error) {
	var part string
	var serial bool
	f := flag.NewFlagSet("nodeconform", flag.ContinueOnError)
	f.StringVar(&o.root, "root", ".", "folder of the repository")
	f.StringVar(&o.nodeless, "nodeless", filepath.Join("bin", "nodeless"), "the program under test")
	f.StringVar(&o.focus, "focus", defaultFocus, "regular expression: only specs whose text matches")
	f.StringVar(&o.skip, "skip", defaultSkip, "regular expression: no specs whose text matches")
	f.StringVar(&part, "part", "", "only one part of the specs, such as 3/20")
	f.BoolVar(&serial, "serial", false, "the specs that are [Serial] or [Slow], one at a time, instead of the others")
	f.IntVar(&o.procs, "procs", 2, "specs at a time")
	f.DurationVar(&o.limit, "timeout", 3*time.Hour, "of all specs together")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if serial {
		o.procs = 1
		if o.focus == defaultFocus {
			o.focus = serialFocus
		}
		if o.skip == defaultSkip {
			o.skip = serialSkip
		}
	}
	if part != "" {
		k, n, _ := strings.Cut(part, "/")
		o.part, err = strconv.Atoi(k)
		if err == nil {
			o.parts, err = strconv.Atoi(n)
		}
		if err != nil || o.part < 1 || o.part > o.parts {
			return o, fmt.Errorf("-part %s: give a part and how many there are, such as 3/20", part)
		}
	}
	for _, path := range []*string{&o.root, &o.nodeless} {
		if *path, err = filepath.Abs(*path); err != nil {
			return o, err
		}
	}
	o.dir = filepath.Join(o.root, "bin", "nodeconformance")
	if _, err := os.Stat(o.nodeless); err != nil {
		return o, fmt.Errorf("%w; run make build", err)
	}
	return o, os.MkdirAll(o.dir, 0o755)
}

func (o options) path(name string) string { return filepath.Join(o.dir, name) }

var began = time.Now()

// say prints a line of progress with the time since the start.
func say(format string, args ...any) {
	fmt.Printf("%7.1fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
}
