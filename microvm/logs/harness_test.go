package logs

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodeless/nodeless/microvm/fargate"
	"github.com/nodeless/nodeless/microvm/logs/pipeline"
	"github.com/nodeless/nodeless/microvm/sandbox"
)

// patience is how long a test waits for something to happen.
const patience = 30 * time.Second

// memory is a pod's log with one container, "app", in memory. Like a host it keeps only the newest lines.
type memory struct {
	most int // the number of lines that it keeps

	mu      sync.Mutex
	lines   []sandbox.Stored
	said    int
	changed chan struct{}
	tails   []*memoryTail
}

type memoryTail struct {
	m     *memory
	after int64
	lost  int64
}

func newMemory(most int) *memory { return &memory{most: most, changed: make(chan struct{})} }

func (m *memory) Containers() []string { return []string{"app"} }

func (m *memory) Logged() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

func (m *memory) Tail(_ string, after int64) (Tail, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := &memoryTail{m: m, after: after}
	m.tails = append(m.tails, t)
	return t, nil
}

// say logs n more numbered lines.
func (m *memory) say(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for range n {
		m.said++
		m.lines = append(m.lines, sandbox.Stored{Nanos: int64(m.said), Text: fmt.Appendf(nil, "line %d", m.said)})
		if len(m.lines) <= m.most {
			continue
		}
		for _, t := range m.tails {
			if t.after < m.lines[0].Nanos {
				t.after, t.lost = m.lines[0].Nanos, t.lost+1
			}
		}
		m.lines = m.lines[1:]
	}
	close(m.changed)
	m.changed = make(chan struct{})
}

func (t *memoryTail) Next() (sandbox.Stored, bool, error) {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	for _, l := range t.m.lines {
		if l.Nanos > t.after {
			t.after = l.Nanos
			return l, true, nil
		}
	}
	return sandbox.Stored{}, false, nil
}

func (t *memoryTail) Lost() int64 {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	return t.lost
}

func (t *memoryTail) Close() {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	t.m.tails = slices.DeleteFunc(t.m.tails, func(o *memoryTail) bool { return o == t })
}

// bench is a router with a pod.
type bench struct {
	t      *testing.T
	dir    string
	router *Router
	route  *Route
	log    *memory
	aws    *AWS

	mu   sync.Mutex
	told []string
	news chan struct{}
}

func newBench(t *testing.T, most int) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir(), log: newMemory(most), news: make(chan struct{}, 1)}
	b.begin()
	t.Cleanup(func() { b.router.Close() })
	return b
}

// begin starts a router, as a new process would.
func (b *bench) begin() {
	b.t.Helper()
	var err error
	b.router, err = New(Options{
		Dir: b.dir, Flush: time.Millisecond, Retry: time.Millisecond,
		MaxRetry: 10 * time.Millisecond, Save: time.Hour, AWS: b.aws,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.route = b.router.Add(Pod{ID: "microvm-1", Log: b.log, Source: source, Report: b.tell})
}

func source(container string) *pipeline.Source {
	return &pipeline.Source{
		Namespace: "shop", Pod: "web-1", UID: "u1", Container: container,
		Labels: map[string]string{"app": "web"},
	}
}

func (b *bench) tell(_ bool, reason, message string) {
	b.mu.Lock()
	b.told = append(b.told, reason+": "+message)
	b.mu.Unlock()
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// heard returns all reports.
func (b *bench) heard() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.told, "\n")
}

// hears waits for a report that contains the text.
func (b *bench) hears(text string) {
	b.t.Helper()
	late := time.After(patience)
	for !strings.Contains(b.heard(), text) {
		select {
		case <-b.news:
		case <-late:
			b.t.Fatalf("it is not told: %s; told: %s", text, b.heard())
		}
	}
}

// delivered waits until every output has recorded that its first n lines were accepted: a line whose response is still
// on its way when the output ends may be sent again.
func (b *bench) delivered(n int64) {
	b.t.Helper()
	deadline := time.Now().Add(patience)
	for _, l := range b.route.current() {
		for l.position()["app"] < n {
			if time.Now().After(deadline) {
				b.t.Fatalf("output %s has accepted only %d lines, want %d", l.out, l.position()["app"], n)
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// configure sets the router's configuration.
func (b *bench) configure(data map[string]string) {
	b.t.Helper()
	sections, err := fargate.ParseLogging(data)
	if err != nil {
		b.t.Fatal(err)
	}
	p, err := pipeline.New(sections, fargate.Abilities{CloudWatch: true})
	if err != nil {
		b.t.Fatal(err)
	}
	b.router.Configure(fargate.LogState{Enabled: true, Reason: "LoggingEnabled", Message: "enabled"}, p)
}

func (b *bench) outputs(sections ...string) {
	b.t.Helper()
	b.configure(map[string]string{"output.conf": strings.Join(sections, "")})
}
