package sim

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/lab/sim/kubescheduler"
	"github.com/nodeless/nodeless/lab/sim/trace"
)

// run is a simulation in progress.
type run struct {
	Config
	cluster
	meter
	now   time.Duration // since the trace's start
	end   time.Duration // of the trace if no pod waits
	epoch time.Time
	clock *clock.Virtual
	queue queue

	trace   []trace.Pod
	arrived int
	alive   int // pods that arrived and have not ended
	pods    []pod
	shapes  []model.Shape

	pool model.Pool
	chance
	market  market
	daemons []model.Daemon

	driver       *cycle.Driver
	inProgress   []*command
	order        []int32         // see pending
	snap         *model.Snapshot // of the present cluster; nil if something has changed
	pace         cycle.Pace
	provisionDue time.Duration // 0 = never
	disruptDue   time.Duration // 0 = never
	lastReport   int
}

// Run simulates until the last pod has ended.
func Run(ctx context.Context, c Config) (Result, error) {
	c, err := c.defaults()
	if err != nil {
		return Result{}, err
	}
	r := newRun(c)
	if r.arrived == len(r.trace) {
		return Result{}, fmt.Errorf("simulate %s: none of its pods fits on an instance type of the catalogue", c.Trace.Name)
	}
	for step := 0; r.alive > 0 || r.arrived < len(r.trace); step++ {
		if step%1024 == 0 {
			if err := ctx.Err(); err != nil {
				return Result{}, err
			}
			r.report()
		}
		if err := r.step(ctx); err != nil {
			return Result{}, fmt.Errorf("simulate %s: %w", c.Trace.Name, err)
		}
	}
	for len(r.nodes) > 0 {
		r.terminate(r.nodes[len(r.nodes)-1])
	}
	return r.result(), nil
}

func newRun(c Config) *run {
	r := &run{
		Config: c, epoch: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), end: c.Trace.Length(),
		chance: chance{seed: c.Seed, boot: c.Boot, spread: c.Spread, faults: c.Faults},
		pace:   cycle.Pace{Idle: c.Decider.BatchIdle, Max: c.Decider.BatchMax},
	}
	r.clock = clock.NewVirtual(r.epoch)
	r.market = newMarket(c.Types, &r.chance)
	r.pool = model.Pool{
		Name: "default", Requirements: model.NewRequirements(model.OneOf(model.LabelPool, "default")), Types: c.Types,
		Disruption: model.DisruptionPolicy{ConsolidateAfter: c.ConsolidateAfter},
	}
	for i, d := range c.Daemons {
		name := fmt.Sprintf("agent-%d", i)
		r.daemons = append(r.daemons, model.Daemon{Namespace: "kube-system", Name: name, Shape: model.Shape{
			Key: name, Namespace: "kube-system", Requests: d, Tolerations: []model.Toleration{{Exists: true}},
		}})
	}
	r.admit()
	r.scheduler = kubescheduler.New(&model.Snapshot{Shapes: r.shapes, Pools: []model.Pool{r.pool}},
		kubescheduler.Options{MostAllocated: c.MostAllocated})
	r.driver = r.newDriver()
	return r
}

// admit creates the shapes and the pods of the trace's pods that fit on some type.
func (r *run) admit() {
	type ask struct{ cpu, memory, gpus int64 }
	at := map[ask]int32{}
	var asks []ask
	for _, p := range r.Trace.Pods {
		a := ask{p.CPU, p.Memory, p.GPUs}
		if _, ok := at[a]; !ok {
			at[a] = -1
			if r.holds(model.Resources{model.CPU: a.cpu, model.Memory: a.memory, model.NvidiaGPU: a.gpus, model.Pods: 1}) {
				at[a] = 0
				asks = append(asks, a)
			}
		}
		if at[a] < 0 {
			r.tooLarge++
			continue
		}
		r.trace = append(r.trace, p)
	}
	slices.SortFunc(asks, func(a, b ask) int {
		return cmp.Or(cmp.Compare(a.cpu, b.cpu), cmp.Compare(a.memory, b.memory), cmp.Compare(a.gpus, b.gpus))
	})
	for i, a := range asks {
		at[a] = int32(i)
		r.shapes = append(r.shapes, model.Shape{
			Key: fmt.Sprintf("shape-%05d", i), Namespace: "default",
			Requests: model.Resources{model.CPU: a.cpu, model.Memory: a.memory, model.NvidiaGPU: a.gpus, model.Pods: 1},
		})
	}
	r.pods = make([]pod, len(r.trace))
	for i := range r.trace {
		p := &r.trace[i]
		name := fmt.Sprintf("pod-%08d", i)
		r.pods[i] = pod{
			shape: at[ask{p.CPU, p.Memory, p.GPUs}], left: p.Life, created: p.Start,
			key: model.PodKey{Namespace: "default", Name: name, UID: name},
		}
	}
}

// holds reports whether the request fits on an empty node of some type.
func (c *Config) holds(ask model.Resources) bool {
	for i := range c.Types {
		used := ask
		for _, d := range c.Daemons {
			used = used.Plus(d)
		}
		if used.Fits(c.Types[i].Allocatable) {
			return true
		}
	}
	return false
}

// step processes the next event: one of the queue, the arrival of a pod, or a decision that is due.
func (r *run) step(ctx context.Context) error {
	e := event{at: math.MaxInt64, kind: never}
	if len(r.queue.events) > 0 {
		e = r.queue.events[0]
	}
	queued := e
	sooner := func(o event) {
		if o.before(&e) {
			e = o
		}
	}
	if r.arrived < len(r.trace) {
		sooner(event{at: r.trace[r.arrived].Start, kind: podArrives})
	}
	if r.provisionDue > 0 {
		sooner(event{at: r.provisionDue, kind: provision})
	}
	if r.disruptDue > 0 {
		sooner(event{at: r.disruptDue, kind: disrupt})
	}
	if e.kind == never {
		return fmt.Errorf("%d pods still wait at %s, and no further event can place them", len(r.waiting), r.now)
	}
	if e == queued {
		heap.Pop(&r.queue.events)
	}
	r.elapse(e.at)
	err := r.happen(ctx, &e)
	if r.audit != nil {
		r.audit(r)
	}
	return err
}

func (r *run) happen(ctx context.Context, e *event) error {
	switch e.kind {
	case podArrives:
		r.arrive()
	case podEnds:
		r.podEnded(e)
	case podReturns:
		r.comeBack(e.pod)
	case nodeReady:
		r.ready(ctx, e.node)
	case nodeGone, nodeFailed:
		r.lose(e.node)
	case interrupted:
		r.interrupt(e.node)
	case evicted:
		r.evict(e.node)
	case provision:
		return r.provision(ctx)
	case disrupt:
		return r.disrupt(ctx)
	}
	return nil
}

// report calls Progress about a hundred times per simulation.
func (r *run) report() {
	if share := int(100 * r.now / max(r.end, 1)); r.Progress != nil && share > r.lastReport {
		r.lastReport = share
		r.Progress(r.now, r.end)
	}
}

func (r *run) time(at time.Duration) time.Time { return r.epoch.Add(at) }
