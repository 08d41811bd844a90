package sim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/lab/sim/trace"
)

// run is a simulation under way.
type run struct {
	Config
	cluster
	meter
	now   time.Duration // since the trace's start
	end   time.Duration // of the trace, if no pod had to wait
	epoch time.Time
	queue queue

	trace   []trace.Pod
	arrived int
	alive   int // pods that came and have not ended
	pods    []pod
	shapes  []model.Shape
	asks    []vector // by shape

	pool model.Pool
	chance
	market    market
	scheduler kubeScheduler
	daemons   []model.Daemon

	order      []int32         // see pending
	snap       *model.Snapshot // of what is now, nil if something changed since
	planDue    time.Duration   // 0 = no plan is due
	planFirst  time.Duration   // since when pods wait for it
	passDue    time.Duration
	after      model.Cursor // where the search of the last interval stopped
	plansMade  int
	lastReport int
}

// Run simulates until the last pod has ended.
func Run(ctx context.Context, c Config) (Result, error) {
	c, err := c.defaults()
	if err != nil {
		return Result{}, err
	}
	r := newRun(c)
	if r.arrived == len(r.trace) {
		return Result{}, fmt.Errorf("simulate %s: no type of the catalogue holds any of its pods", c.Trace.Name)
	}
	for step := 0; r.alive > 0 || r.arrived < len(r.trace); step++ {
		if step%1024 == 0 {
			if err := ctx.Err(); err != nil {
				return Result{}, err
			}
			r.report()
		}
		if err := r.step(); err != nil {
			return Result{}, fmt.Errorf("simulate %s: %w", c.Trace.Name, err)
		}
	}
	for len(r.machines) > 0 {
		r.terminate(r.machines[len(r.machines)-1])
	}
	return r.result(), nil
}

func newRun(c Config) *run {
	r := &run{
		Config: c, epoch: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), end: c.Trace.Length(),
		chance:    chance{seed: c.Seed, boot: c.Boot, spread: c.Spread, faults: c.Faults},
		scheduler: kubeScheduler{mostAllocated: c.MostAllocated},
	}
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
	return r
}

// admit makes shapes and pods of what the trace has and some type holds.
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
		s := model.Shape{
			Key: fmt.Sprintf("shape-%05d", i), Namespace: "default",
			Requests: model.Resources{model.CPU: a.cpu, model.Memory: a.memory, model.NvidiaGPU: a.gpus, model.Pods: 1},
		}
		r.shapes = append(r.shapes, s)
		r.asks = append(r.asks, vectorOf(&s.Requests))
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

// holds reports whether an empty machine of some type has room for so much.
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

// step lets the next event happen: what is in the queue, or a pod that comes, or a decision that is due.
func (r *run) step() error {
	e := event{at: 1 << 62, kind: never}
	later := func(o event) {
		if o.before(&e) {
			e = o
		}
	}
	if len(r.queue.heap) > 0 {
		e = r.queue.heap[0]
	}
	queued := e
	if r.arrived < len(r.trace) {
		later(event{at: r.trace[r.arrived].Start, kind: arrives})
	}
	if r.planDue > 0 {
		later(event{at: r.planDue, kind: plans})
	}
	if r.passDue > 0 {
		later(event{at: r.passDue, kind: passes})
	}
	if e.kind == never {
		return fmt.Errorf("%d pods wait at %s and nothing is to happen", len(r.waiting), r.now)
	}
	if e == queued {
		r.queue.next()
	}
	r.elapse(e.at)
	err := r.happen(&e)
	if r.audit != nil {
		r.audit(r)
	}
	return err
}

func (r *run) happen(e *event) error {
	switch e.kind {
	case arrives:
		r.arrive()
	case departs:
		r.depart(e)
	case ready:
		r.getReady(e.machine)
	case gaveUp, becomesIdle:
		r.lose(e.machine)
	case interrupted:
		r.interrupt(e.machine)
	case evicted:
		r.evict(e.machine)
	case returns:
		r.comeBack(e.pod)
	case plans:
		return r.provision()
	case passes:
		return r.disrupt()
	}
	return nil
}

func (r *run) arrive() {
	id := int32(r.arrived)
	r.arrived++
	r.alive++
	p := &r.pods[id]
	p.since = r.now
	r.seek(id)
}

// wait queues a pod for which kube-scheduler found no place.
func (r *run) wait(id int32) {
	r.waiting = append(r.waiting, id)
	r.changed()
	r.planSoon()
}

func (r *run) depart(e *event) {
	p := &r.pods[e.pod]
	if p.turn != e.turn {
		return
	}
	m := p.machine
	r.leave(e.pod)
	r.alive--
	r.fill(m)
}

// report calls Progress about a hundred times.
func (r *run) report() {
	if share := int(100 * r.now / max(r.end, 1)); r.Progress != nil && share > r.lastReport {
		r.lastReport = share
		r.Progress(r.now, r.end)
	}
}
