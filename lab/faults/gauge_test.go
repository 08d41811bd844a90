package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/lab/apisim"
)

// Profiles distinguish whose goroutines use CPU by this label, which goroutines inherit.
var (
	theController = pprof.WithLabels(context.Background(), pprof.Labels("part", "controller"))
	theRest       = pprof.WithLabels(context.Background(), pprof.Labels("part", "rest"))
)

// processor is the controller's clock. In a bubble computing takes no time; with this clock a decision takes the CPU
// time that the process uses meanwhile, so that the controller paces itself as in production.
type processor struct {
	mu    sync.Mutex
	last  time.Time     // when a decision last read the clock
	used  time.Duration // the CPU time of the process at that time
	ahead time.Duration // of the bubble's time
}

// Now returns the bubble's time plus the time that decisions have taken.
func (p *processor) Now() time.Time {
	now, deciding := time.Now(), inDecision()
	p.mu.Lock()
	defer p.mu.Unlock()
	if deciding {
		used := cpuTime()
		if now.Equal(p.last) {
			p.ahead += used - p.used
		}
		p.last, p.used = now, used
	}
	return now.Add(p.ahead)
}

// inDecision reports whether the driver of the decision cycle is among the callers.
func inDecision() bool {
	var callers [8]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	for {
		frame, more := frames.Next()
		if strings.Contains(frame.Function, "controller/cycle.(*Driver)") {
			return true
		}
		if !more {
			return false
		}
	}
}

// wait lets the bubble's time catch up.
func (p *processor) wait() {
	p.mu.Lock()
	ahead := p.ahead
	p.mu.Unlock()
	time.Sleep(ahead)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ahead -= ahead
}

// AfterFunc is time.AfterFunc, with CPU time accounted to the controller.
func (p *processor) AfterFunc(d time.Duration, f func()) clock.Timer {
	return time.AfterFunc(d, func() {
		pprof.SetGoroutineLabels(theController)
		f()
	})
}

// cpuTime is the CPU time that the process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// elsewhere accounts the CPU time of responses to the rest of the cluster, and counts their bytes.
type elsewhere struct {
	next  http.RoundTripper
	bytes atomic.Int64
}

// RoundTrip forwards a call.
func (e *elsewhere) RoundTrip(req *http.Request) (*http.Response, error) {
	pprof.SetGoroutineLabels(theRest)
	defer pprof.SetGoroutineLabels(theController)
	resp, err := e.next.RoundTrip(req)
	if err == nil {
		resp.Body = &answerBody{ReadCloser: resp.Body, e: e}
	}
	return resp, err
}

type answerBody struct {
	io.ReadCloser
	e *elsewhere
}

// Read is accounted to the server: it generates the events of a watch as they are read.
func (b *answerBody) Read(p []byte) (int, error) {
	pprof.SetGoroutineLabels(theRest)
	defer pprof.SetGoroutineLabels(theController)
	n, err := b.ReadCloser.Read(p)
	b.e.bytes.Add(int64(n))
	return n, err
}

// gauge measures what the controller uses.
type gauge struct {
	dir     string
	outside *outside
	kube    *elsewhere
	api     *meter
	amazon  *meter
	clock   processor

	mu     sync.Mutex
	events int // of watches
	phase  figures
}

// figures are the measurements of a phase.
type figures struct {
	name            string
	profile         string // the name of its file
	took            time.Duration
	api, aws        map[string]int // calls
	events, cycles  int
	bytes           int64
	decided         time.Duration // total over all cycles, for pending pods and for removals
	plan, search    time.Duration // the longest in a cycle
	heap            uint64
	nodes           int
	launched, ended int
}

// watched are the resources of which the controller watches every object, limited to those that change here.
var watched = map[string]bool{
	"pods": true, "nodes": true, "nodeclaims": true, "nodepools": true, "ec2nodeclasses": true, "replicasets": true,
}

func newGauge(c *cluster, dir string, o *outside) *gauge {
	g := &gauge{dir: dir, outside: o}
	g.api = &meter{kind: kubernetesCall, next: c.api, counts: map[string]int{}}
	g.amazon = &meter{kind: awsCall, next: c, counts: map[string]int{}}
	g.kube = &elsewhere{next: g.api}
	c.api.Observe(func(x apisim.Change) {
		if watched[x.Resource.Resource] {
			g.mu.Lock()
			g.events++
			g.mu.Unlock()
		}
	})
	return g
}

// decided records a cycle.
func (g *gauge) decided(d cycle.Decision) {
	g.mu.Lock()
	g.phase.cycles++
	g.phase.decided += d.Took + d.Weighed
	g.phase.plan, g.phase.search = max(g.phase.plan, d.Took), max(g.phase.search, d.Weighed)
	g.phase.launched += len(d.Result.Created)
	g.phase.ended += len(d.Result.Removed) + len(d.Result.Finished)
	g.mu.Unlock()
	g.clock.wait()
}

// measure measures what is used while f runs.
func (g *gauge) measure(name string, f func() error) (figures, error) {
	file := filepath.Join(g.dir, name+".pprof")
	var out *os.File
	g.outside.do(func() {
		var err error
		if out, err = os.Create(file); err == nil { //nolint:gosec // in a folder of the test's own
			err = pprof.StartCPUProfile(out)
		}
		if err != nil {
			panic(err)
		}
	})
	api, aws := map[string]int{}, map[string]int{}
	g.api.since(api)
	g.amazon.since(aws)
	g.mu.Lock()
	g.phase = figures{name: name, profile: file}
	start, before, bytes := time.Now(), g.events, g.kube.bytes.Load()
	g.mu.Unlock()
	err := f()
	g.outside.do(func() {
		pprof.StopCPUProfile()
		_ = out.Close()
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	got := g.phase
	got.took, got.events, got.bytes = time.Since(start), g.events-before, g.kube.bytes.Load()-bytes
	got.api, got.aws = g.api.since(api), g.amazon.since(aws)
	got.heap = heap()
	g.outside.do(func() {
		if out, err := os.Create(file + ".heap"); err == nil { //nolint:gosec // in a folder of the test's own
			_ = errors.Join(pprof.WriteHeapProfile(out), out.Close())
		}
	})
	return got, err
}

// heap is the size of the live heap.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // frees objects with finalizers, too
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// cpu is the controller's CPU time in a phase, without background garbage collection.
func (f *figures) cpu() (time.Duration, error) {
	out, err := exec.Command("go", "tool", "pprof", "-tags", f.profile).Output() //nolint:gosec // its own file
	if err != nil {
		return 0, fmt.Errorf("go tool pprof: %w", err)
	}
	found := cpuLine.FindSubmatch(out)
	if found == nil {
		return 0, nil
	}
	return time.ParseDuration(strings.NewReplacer("mins", "m", "hrs", "h").Replace(string(found[1])))
}

var cpuLine = regexp.MustCompile(`(?m)^\s*([0-9.]+[a-z]+) \([^)]*\): controller`)

// outside runs functions outside a bubble, where timers are real.
type outside struct{ todo, done chan func() }

func newOutside() *outside {
	o := &outside{todo: make(chan func()), done: make(chan func())}
	go func() {
		for f := range o.todo {
			f()
			o.done <- nil
		}
	}()
	return o
}

func (o *outside) do(f func()) {
	o.todo <- f
	<-o.done
}
