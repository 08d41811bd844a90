package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// conformance is one run of a suite.
type conformance struct {
	options
	began time.Time

	mu      sync.Mutex
	queue   []spec
	total   int
	results []result
}

// conform runs the selected specs and fails if one of them fails.
func conform(ctx context.Context, o options) error {
	free, err := o.prepare()
	if err != nil {
		return err
	}
	defer free()
	c := &conformance{options: o, began: time.Now()}
	c.say("building Karpenter's %s suite (the first time takes a minute or two)", o.suite.name)
	if err := o.build(ctx); err != nil {
		return err
	}
	specs, err := o.list(ctx)
	if err != nil {
		return err
	}
	if len(specs) == 0 {
		return errors.New("no spec is wanted: see -focus, -skip and -fast")
	}
	c.queue, c.total = specs, len(specs)
	n := min(o.instances, len(specs))
	c.say("%d specs on %d clusters; logs in %s", len(specs), n, o.dir())
	c.work(ctx, n)
	return c.finish(ctx)
}

// say prints a line of progress with the time since the start.
func (c *conformance) say(format string, args ...any) {
	fmt.Fprintf(os.Stdout, "%7.1fs  %s\n", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
}

// work has n clusters take specs from the queue until it is empty.
func (c *conformance) work(ctx context.Context, n int) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { c.cluster(ctx, i+1) })
	}
	wg.Wait()
}

// cluster runs specs on one cluster. A failed spec may leave objects behind, so the next one gets a new cluster.
func (c *conformance) cluster(ctx context.Context, number int) {
	var in *instance
	defer func() {
		if in != nil {
			in.stop()
		}
	}()
	for generation := 1; ; {
		s, ok := c.take(ctx)
		if !ok {
			return
		}
		var err error
		if in == nil {
			in, err = startInstance(ctx, c.options, fmt.Sprintf("cluster-%d.%d", number, generation))
			generation++
		}
		r := result{Spec: s.text}
		if err == nil {
			r, err = in.run(ctx, s.text)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			r.Failure = err.Error()
		}
		c.note(number, s, r)
		if !r.Passed && in != nil {
			in.stop()
			in = nil
		}
	}
}

func (c *conformance) take(ctx context.Context) (spec, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 || ctx.Err() != nil {
		return spec{}, false
	}
	s := c.queue[0]
	c.queue = c.queue[1:]
	return s, true
}

func (c *conformance) note(number int, s spec, r result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results = append(c.results, r)
	verdict := "ok  "
	if !r.Passed {
		verdict = "FAIL"
	}
	c.say("%3d/%d  %s %6.1fs  [%d] %s", len(c.results), c.total, verdict, r.Took.Seconds(), number, s.text)
	if !r.Passed {
		c.say("         %s", short(r.Failure))
		if r.Logs != "" {
			c.say("         logs: %s", r.Logs)
		}
	}
}

// finish prints a summary, writes the document if requested, and returns an error that lists the failed specs.
func (c *conformance) finish(ctx context.Context) error {
	slices.SortFunc(c.results, func(a, b result) int { return strings.Compare(a.Spec, b.Spec) })
	if err := saveResults(c.dir(), c.results); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var failed []string
	for _, r := range c.results {
		if !r.Passed {
			failed = append(failed, r.Spec)
		}
	}
	c.say("%d of %d passed", c.total-len(failed), c.total)
	if c.write {
		if err := c.document(); err != nil {
			return err
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d specs failed:\n  %s", len(failed), c.total, strings.Join(failed, "\n  "))
	}
	return nil
}
