package faults

import (
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"
)

// injector decides what goes wrong. Its decisions depend on the seed, the kind of call, and how many calls of that
// kind came before, so that the order of goroutines matters as little as possible.
type injector struct {
	seed    uint64
	percent uint64 // of calls that fail
	crashAt int    // the call at which the controller dies, counted over all its lives; 0 = it does not die
	every   int    // after how many further calls it dies again; 0 = never

	mu      sync.Mutex
	off     bool // nothing fails any more
	calls   int
	by      map[string]int // calls by name
	crashes map[string]int // by call
	current *life
	trace   []string
	faults  map[string]int
	touch   func(path string) // changes an object of the API behind the controller's back
}

// life is one process of the controller.
type life struct {
	dead bool
	die  func()
}

func newInjector(seed uint64, crashAt, every int) *injector {
	return &injector{
		seed: seed, percent: []uint64{0, 2, 5, 10, 20}[seed%5], crashAt: crashAt, every: every,
		by: map[string]int{}, faults: map[string]int{}, crashes: map[string]int{},
	}
}

// mostCrashes limits how often a run dies: a process that dies all the time cannot be expected to make progress.
const mostCrashes = 30

func (in *injector) dies(n int) bool {
	return in.crashAt > 0 && n < in.crashAt+mostCrashes*in.every+1 &&
		(n == in.crashAt || in.every > 0 && n > in.crashAt && (n-in.crashAt)%in.every == 0)
}

func (in *injector) begin(die func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.current = &life{die: die}
}

func (in *injector) life() *life {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.current
}

func (in *injector) stop() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.off = true
}

// note adds a line to the trace of what happened.
func (in *injector) note(format string, args ...any) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.say(format, args...)
}

// told returns the trace.
func (in *injector) told() []string {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.trace)
}

func (in *injector) say(format string, args ...any) {
	const most = 4000
	if len(in.trace) >= most {
		in.trace = in.trace[1:]
	}
	in.trace = append(in.trace, fmt.Sprintf("%s %s", time.Now().Format("04:05.000"), fmt.Sprintf(format, args...)))
}

// chance returns a number that is determined by the seed and the words.
func (in *injector) chance(words ...any) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, in.seed, words)
	x := h.Sum64() // FNV's low bits are poor, so they are mixed as splitmix64 does
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// fault is what goes wrong with a call.
type fault struct {
	kind  string
	delay time.Duration
}

// verdict numbers a call, and decides whether the controller dies at it or the call fails.
func (in *injector) verdict(l *life, kind callKind, what string, write bool) (n int, crash bool, f fault, dead bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if l.dead {
		return 0, false, fault{}, true
	}
	in.calls++
	in.by[what]++
	n = in.calls
	if in.dies(n) && !in.off {
		in.crashes[what]++
		return n, true, fault{}, false
	}
	nth := in.by[what]
	if in.off || in.chance(what, nth)%100 >= in.percent {
		in.say("%d %s", n, what)
		return n, false, fault{}, false
	}
	sorts := []string{"error", "lost", "error", "throttled", "slow", "slow", "unreachable"}
	if discovery(what) { // controller-runtime makes this call under a lock: virtual time stands still for those who wait
		sorts = sorts[:1]
	}
	if kind == kubernetesCall && write {
		sorts = append(sorts, "conflict", "conflict", "conflict")
	}
	f.kind = sorts[in.chance("sort", what, nth)%uint64(len(sorts))]
	if f.kind == "slow" || f.kind == "unreachable" {
		f.delay = time.Duration(in.chance("delay", what, nth)%20_000) * time.Millisecond
	}
	in.faults[string(kind)+" "+f.kind]++
	in.say("%d %s: %s %s", n, what, f.kind, f.delay)
	return n, false, f, false
}

// kill ends a life: its later calls have no effect.
func (in *injector) kill(l *life, n int, what, how string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	l.dead = true
	in.say("%d %s: the controller dies %s the call", n, what, how)
	l.die()
}
