// Package logs routes what containers in microVMs log as the ConfigMap aws-logging says (package pipeline). The logs that the host stores for kubectl
// are its buffer: each output of each pod reads them at its own pace, from where it was, also after a restart of the process. Nobody waits for an output;
// what is forgotten before an output took it is counted and told.
package logs

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nodeless/nodeless/microvm/fargate"
	"github.com/nodeless/nodeless/microvm/logs/pipeline"
	"github.com/nodeless/nodeless/microvm/sandbox"
)

// Log is what the host stores of a pod's containers.
type Log interface {
	Containers() []string
	// Tail reads a container's log from the first line after a time.
	Tail(container string, after int64) (Tail, error)
	// Logged is closed when there is something more.
	Logged() <-chan struct{}
}

// Tail reads one container's log; host.Tail is one.
type Tail interface {
	Next() (sandbox.Stored, bool, error)
	Lost() int64
	Close()
}

// Options are what a Router needs.
type Options struct {
	// Dir is where the outputs file and stdout write, and where it is kept how far each output is. Private.
	Dir string // required
	// Dial connects to outputs; default a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Flush is how long lines are gathered; default 1 s.
	Flush time.Duration
	// Again is how long it takes until what failed is tried again, doubled up to MostAgain; defaults 1 s and a minute.
	Again, MostAgain time.Duration
	// Save is how often it is noted how far an output is: so many of its lines are sent twice after this process was killed. Default 5 s.
	Save time.Duration
	Log  *slog.Logger // default slog.Default
}

// Router routes the logs of pods. Its methods may be used by many goroutines.
type Router struct {
	o        Options
	files    *files
	safe     *http.Client
	insecure *http.Client // does not judge certificates

	mu      sync.Mutex
	state   fargate.LogState
	pipe    *pipeline.Pipeline
	known   bool // Configure was called
	routes  map[string]*Route
	running sync.WaitGroup
}

// How long one request may take, and how many connections to one server are kept.
const (
	requestLimit = 30 * time.Second
	idlePerHost  = 8
)

// New makes a Router that knows no configuration yet.
func New(o Options) (*Router, error) {
	for _, d := range []struct {
		have      *time.Duration
		otherwise time.Duration
	}{{&o.Flush, time.Second}, {&o.Again, time.Second}, {&o.MostAgain, time.Minute}, {&o.Save, 5 * time.Second}} {
		if *d.have <= 0 {
			*d.have = d.otherwise
		}
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if err := os.MkdirAll(filepath.Join(o.Dir, positionsDir), 0o700); err != nil {
		return nil, fmt.Errorf("log router: %w", err)
	}
	f, err := openFiles(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("log router: %w", err)
	}
	client := func(insecure bool) *http.Client {
		return &http.Client{
			Timeout: requestLimit,
			Transport: &http.Transport{
				DialContext: o.Dial, MaxIdleConnsPerHost: idlePerHost, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: requestLimit / 3,
				TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: insecure}, //nolint:gosec // it was asked for: tls.verify Off
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // passwords go where they were meant to
		}
	}
	return &Router{o: o, files: f, safe: client(false), insecure: client(true), routes: map[string]*Route{}}, nil
}

// Configure has all pods' logs routed as a pipeline says from now on; nil routes none. Outputs that stay as they are go on where they are.
func (r *Router) Configure(state fargate.LogState, p *pipeline.Pipeline) {
	r.mu.Lock()
	first := !r.known
	r.known, r.state, r.pipe = true, state, p
	routes := make([]*Route, 0, len(r.routes))
	for _, route := range r.routes {
		routes = append(routes, route)
	}
	r.mu.Unlock()
	for _, route := range routes {
		if route.configure(p); !first && state.Reason != "" {
			message := state.Message
			if state.Enabled {
				message = "The log router follows the changed ConfigMap aws-logging: " + message
			}
			route.tell(!state.Enabled, state.Reason, message)
		}
	}
}

// Pod is one whose logs are routed.
type Pod struct {
	ID  string // of its microVM: a file's name
	Log Log
	// Source describes a container; it is asked again and again, since labels change. nil: not now.
	Source func(container string) *pipeline.Source
	// Tell is told what a user should know.
	Tell func(warning bool, reason, message string)
}

// Add routes a pod's logs until the Route ends.
func (r *Router) Add(p Pod) *Route {
	route := &Route{router: r, pod: p}
	route.recall()
	r.mu.Lock()
	pipe := r.pipe
	r.routes[p.ID] = route
	r.mu.Unlock()
	route.configure(pipe)
	return route
}

// Sweep forgets how far the outputs of pods are that are no more.
func (r *Router) Sweep(keep func(id string) bool) {
	left, _ := filepath.Glob(filepath.Join(r.o.Dir, positionsDir, "*.json"))
	for _, path := range left {
		if id := idOf(path); !keep(id) {
			_ = os.Remove(path)
		}
	}
}

// Close ends all routes. A later Router goes on with them.
func (r *Router) Close() {
	r.mu.Lock()
	routes := r.routes
	r.routes = map[string]*Route{}
	r.mu.Unlock()
	for _, route := range routes {
		route.stop()
	}
	r.running.Wait()
	r.safe.CloseIdleConnections()
	r.insecure.CloseIdleConnections()
	r.files.close()
}
