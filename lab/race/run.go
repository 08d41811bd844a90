package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// result is the result of one run of a workload on one side.
type result struct {
	Workload string    `json:"workload"`
	Side     string    `json:"side"`
	Run      int       `json:"run"`
	BootTime string    `json:"bootTime"`
	Started  time.Time `json:"started"`
	Window   float64   `json:"windowSeconds"`
	// Load averages of this machine before and after: both sides share it with other processes.
	LoadBefore float64 `json:"loadBefore"`
	LoadAfter  float64 `json:"loadAfter"`

	waits
	costs
	Evictions  int            `json:"evictions"` // pods that ran and were evicted or lost with their node
	AWSCalls   map[string]int `json:"awsCalls"`
	Audit      audit          `json:"kubernetesCalls"`
	CPUSeconds float64        `json:"cpuSeconds"`
	PeakMB     float64        `json:"peakMB"`
	ReadMB     float64        `json:"readMB"` // mostly from the API server and AWS

	Steps     []stepTimes `json:"steps"`
	PodTimes  []podTimes  `json:"podTimes"`
	Instances []instance  `json:"instances"`
}

// stepTimes are the durations of a step.
type stepTimes struct {
	Step    string  `json:"step"`
	AllRan  float64 `json:"untilAllRanSeconds"` // since its beginning; -1 if not all pods ran
	Awaited bool    `json:"awaited,omitempty"`  // all pods should have run
	Lasted  float64 `json:"lastedSeconds"`
}

// late returns the first step after which all pods should have run and did not, or "".
func (r *result) late() string {
	for _, s := range r.Steps {
		if s.Awaited && s.AllRan < 0 {
			return s.Step
		}
	}
	return ""
}

// run runs a workload once on one side, in its own folder, where logs and figures stay.
func (o *options) run(ctx context.Context, w workload, s side, n int) (r result, err error) {
	name := fmt.Sprintf("%s-%s-%d", w.name, s.name, n)
	dir := filepath.Join(o.bin, "race", name)
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(filepath.Join(dir, "audit"), 0o700)); err != nil {
		return r, err
	}
	p := &progress{name: name, began: time.Now()}
	p.say("start the cluster, boot time %s (%s)", o.boot, w.about)
	c, err := o.startCluster(ctx, dir, &w, &s)
	defer func() { err = errors.Join(err, c.stop()) }()
	if err != nil {
		return r, err
	}
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	d := &driver{cluster: c, progress: p, boot: o.boot, limit: cmp.Or(w.limit, stepLimit)}
	if d.watcher, err = c.watch(watching); err != nil {
		return r, err
	}
	if err := d.prepare(ctx, w.before); err != nil {
		return r, err
	}
	r = result{
		Workload: w.name, Side: s.name, Run: n, BootTime: o.boot.String(), Started: time.Now(), LoadBefore: loadAverage(),
	}
	before, err := c.usage()
	if err != nil {
		return r, err
	}
	if r.Steps, err = d.drive(ctx, w.steps); err != nil {
		return r, err
	}
	end := time.Now()
	r.LoadAfter, r.Window = loadAverage(), end.Sub(r.Started).Seconds()
	if err := r.usage(c, before); err != nil {
		return r, err
	}
	if err := r.measure(ctx, d, &s, end); err != nil {
		return r, err
	}
	p.say("done: %s", r.line())
	return r, r.save(dir + ".json")
}

func (r *result) usage(c *cluster, before usage) error {
	after, err := c.usage()
	if err != nil {
		return err
	}
	spent := after.since(before)
	r.CPUSeconds, r.ReadMB = spent.cpuSeconds, spent.readMB
	r.PeakMB, err = peakMB(c.controller.PID())
	return err
}

// measure collects the results from the start to the end of the steps.
func (r *result) measure(ctx context.Context, d *driver, s *side, end time.Time) error {
	var err error
	if r.Instances, err = d.instances(ctx); err != nil {
		return err
	}
	if r.AWSCalls, err = d.calls(ctx, r.Started, end); err != nil {
		return err
	}
	if r.Audit, err = readAudit(d.auditLog(), s.agent, r.Started, end); err != nil {
		return err
	}
	r.PodTimes = d.watcher.times()
	r.waits = waitsOf(r.PodTimes, "default", r.Started, end)
	r.costs = costsOf(r.Instances, r.Started, end)
	r.Evictions = r.Audit.evictions(r.PodTimes)
	return nil
}

func (r *result) line() string {
	return fmt.Sprintf("p50 %.1f s, p99 %.1f s, some pod waited %.1f s; %d launched, %d at rest at $%.2f/h; $%.4f; "+
		"%d evictions; %.1f CPU s", r.P50, r.P99, r.Some, r.Launched, r.Nodes, r.RestPerHour, r.Dollars, r.Evictions,
		r.CPUSeconds)
}

func (r *result) save(path string) error {
	out, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(out, '\n'), 0o600)
}

// savedResults reads the results of earlier runs, in the order of the workloads.
func (o *options) savedResults() ([]result, error) {
	var all []result
	for _, w := range o.workloads {
		for _, s := range o.sides {
			files, err := filepath.Glob(filepath.Join(o.bin, "race", w.name+"-"+s.name+"-*.json"))
			if err != nil {
				return nil, err
			}
			for _, name := range files {
				raw, err := os.ReadFile(name)
				if err != nil {
					return nil, err
				}
				var r result
				if err := json.Unmarshal(raw, &r); err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
				all = append(all, r)
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no results in %s", filepath.Join(o.bin, "race"))
	}
	return all, nil
}

// progress reports progress on standard error.
type progress struct {
	name  string
	began time.Time
}

func (p *progress) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s  %4.0fs  %s\n", p.name, time.Since(p.began).Seconds(), fmt.Sprintf(format, args...))
}
