package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/nodeless/nodeless/lab/process"
)

// options of a run.
type options struct {
	suite      suite
	root       string // of the repository
	nodeless   string // the whole program, whose "up" is the cluster
	controller string // the controller under test
	instances  int
	focus      *regexp.Regexp
	skip       *regexp.Regexp
	fast       bool
	ec2        bool // with EC2NodeClass instead of KWOKNodeClass
	write      bool
	logs       string        // where logs and reports go
	limit      time.Duration // for one spec; 0 = as long as the suite itself waits
}

func main() { process.Main("conform", run) }

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == insideCommand {
		return inside(ctx, args[1:])
	}
	if len(args) == 0 || suites[args[0]].name == "" {
		return errors.New("say which suite: regression or performance")
	}
	o, err := parse(suites[args[0]], args[1:])
	if err != nil {
		return err
	}
	return conform(ctx, o)
}

func parse(s suite, args []string) (options, error) {
	o := options{suite: s}
	var focus, skip string
	f := flag.NewFlagSet("conform "+s.name, flag.ContinueOnError)
	f.StringVar(&o.root, "root", ".", "folder of the repository")
	f.StringVar(&o.nodeless, "nodeless", filepath.Join("bin", "nodeless"),
		"the whole program, whose control plane and region make the clusters")
	f.StringVar(&o.controller, "controller", filepath.Join("bin", "conformance-controller"), "the controller under test")
	f.IntVar(&o.instances, "n", s.instances, "clusters side by side")
	f.StringVar(&focus, "focus", s.focus, "regular expression: only specs whose text matches")
	f.StringVar(&skip, "skip", "", "regular expression: no specs whose text matches")
	f.BoolVar(&o.fast, "fast", false, "only the specs that CI runs")
	f.BoolVar(&o.ec2, "ec2", false, "with an EC2NodeClass instead of the suite's own KWOKNodeClass")
	f.BoolVar(&o.write, "write", false, "write the results to docs/conformance.md")
	f.StringVar(&o.logs, "logs", "", "folder for logs and reports, emptied first (default: bin/conformance/<suite>)")
	f.DurationVar(&o.limit, "limit", 0,
		"end a spec after this time and count it as failed (default: as long as the suite waits)")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	var err error
	if o.focus, err = regexp.Compile(focus); err != nil {
		return o, fmt.Errorf("-focus: %w", err)
	}
	if skip != "" {
		if o.skip, err = regexp.Compile(skip); err != nil {
			return o, fmt.Errorf("-skip: %w", err)
		}
	}
	if o.instances < 1 {
		return o, fmt.Errorf("-n %d: at least one cluster is needed", o.instances)
	}
	if o.root, err = filepath.Abs(o.root); err != nil {
		return o, err
	}
	for _, binary := range []*string{&o.nodeless, &o.controller} {
		if *binary, err = filepath.Abs(*binary); err != nil {
			return o, err
		}
		if _, err := os.Stat(*binary); err != nil {
			return o, fmt.Errorf("%w; run make build bin/conformance-controller", err)
		}
	}
	if o.logs != "" {
		if o.logs, err = filepath.Abs(o.logs); err != nil {
			return o, err
		}
	}
	return o, nil
}

// dir returns the folder for a run's logs and reports.
func (o options) dir() string {
	if o.logs != "" {
		return o.logs
	}
	return filepath.Join(o.root, "bin", "conformance", o.name())
}

// name returns the name of the suite, with the node class if it is not the suite's own.
func (o options) name() string {
	if o.ec2 {
		return o.suite.name + "-ec2"
	}
	return o.suite.name
}

// prepare creates the folder for logs and locks it, since only one run at a time may use it; free unlocks it.
func (o options) prepare() (free func(), err error) {
	if err := os.MkdirAll(o.dir(), 0o700); err != nil {
		return nil, fmt.Errorf("folder for logs: %w", err)
	}
	lock, err := os.OpenFile(o.dir()+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("folder for logs: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("another run writes to %s: %w; wait for it or name another folder with -logs", o.dir(), err)
	}
	if err := errors.Join(os.RemoveAll(o.dir()), os.MkdirAll(o.dir(), 0o700)); err != nil {
		lock.Close()
		return nil, fmt.Errorf("the last run's logs: %w", err)
	}
	return func() { lock.Close() }, nil
}
