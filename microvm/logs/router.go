// Package logs routes the logs of containers in microVMs as configured in the ConfigMap aws-logging (package
// pipeline). The logs that the host stores for kubectl are the buffer: each output of each pod reads them at its own
// pace and, after a restart of the process, continues where it was. No container waits for an output. Lines that are
// dropped before an output has accepted them are counted and reported.
package logs

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/nodeless/nodeless/microvm/fargate"
	"github.com/nodeless/nodeless/microvm/logs/pipeline"
	"github.com/nodeless/nodeless/microvm/sandbox"
)

// Log is the stored log of a pod's containers.
type Log interface {
	Containers() []string
	// Tail returns a reader of a container's log that starts at the first line after a time.
	Tail(container string, after int64) (Tail, error)
	// Logged returns a channel that is closed when there is more to read.
	Logged() <-chan struct{}
}

// Tail reads one container's log; sandbox.Tail implements it.
type Tail interface {
	Next() (sandbox.Stored, bool, error)
	Lost() int64
	Close()
}

// Options configure a Router.
type Options struct {
	// Dir is a private directory for the files of the outputs file and stdout, and for the positions of all outputs.
	Dir string // required
	// Dial connects to outputs; default: a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Flush is how long lines are gathered; default 1 s.
	Flush time.Duration
	// Retry is the pause before a failed delivery is retried, doubled up to MaxRetry; default 1 s and 1 min.
	Retry, MaxRetry time.Duration
	// Save is the interval at which positions are saved. If the process is killed, the lines of up to one interval are
	// sent again. Default 5 s.
	Save time.Duration
	Log  *slog.Logger // default: slog.Default
	// AWS is the region that outputs to CloudWatch Logs send to; nil if there is no AWS.
	AWS *AWS
}

// AWS is an AWS region, real or simulated.
type AWS struct {
	Endpoint, Region string // "https://logs.us-west-2.amazonaws.com", "us-west-2"
	Credentials      aws.Credentials
}

// Router routes the logs of pods. It is safe for concurrent use.
type Router struct {
	o        Options
	files    *files
	safe     *http.Client
	insecure *http.Client // does not verify certificates

	mu      sync.Mutex
	pipe    *pipeline.Pipeline
	known   bool // Configure was called
	routes  map[string]*Route
	running sync.WaitGroup
}

// Limits of one request's duration, and of idle connections per server.
const (
	requestLimit = 30 * time.Second
	idlePerHost  = 8
)

// New returns a Router without a configuration.
func New(o Options) (*Router, error) {
	o.Flush, o.Save = cmp.Or(o.Flush, time.Second), cmp.Or(o.Save, 5*time.Second)
	o.Retry, o.MaxRetry = cmp.Or(o.Retry, time.Second), cmp.Or(o.MaxRetry, time.Minute)
	o.Log = cmp.Or(o.Log, slog.Default())
	if o.Dial == nil {
		o.Dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
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
				DialContext: o.Dial, MaxIdleConnsPerHost: idlePerHost, IdleConnTimeout: time.Minute,
				TLSHandshakeTimeout: requestLimit / 3,
				// A small request is sent in one write: if the server refuses it unread, no later write fails, and the answer
				// is read.
				WriteBufferSize: 64 << 10,
				//nolint:gosec // insecure only with tls.verify Off
				TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: insecure},
			},
			// a redirect must not receive passwords
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return &Router{o: o, files: f, safe: client(false), insecure: client(true), routes: map[string]*Route{}}, nil
}

// Configure routes the logs of all pods through a pipeline from now on; nil routes none. Unchanged outputs continue
// where they are.
func (r *Router) Configure(state fargate.LogState, p *pipeline.Pipeline) {
	r.mu.Lock()
	first := !r.known
	r.known, r.pipe = true, p
	routes := slices.Collect(maps.Values(r.routes))
	r.mu.Unlock()
	for _, route := range routes {
		if route.configure(p); !first && state.Reason != "" {
			message := state.Message
			if state.Enabled {
				message = "The log router follows the changed ConfigMap aws-logging: " + message
			}
			route.pod.Report(!state.Enabled, state.Reason, message)
		}
	}
}

// Pod is a pod whose logs are routed.
type Pod struct {
	ID  string // of its microVM: a valid file name
	Log Log
	// Source describes a container, or returns nil if it cannot do so now. It is called repeatedly, since labels
	// change.
	Source func(container string) *pipeline.Source
	// Report reports an event to the user.
	Report func(warning bool, reason, message string)
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

// Sweep forgets the positions of pods that no longer exist.
func (r *Router) Sweep(keep func(id string) bool) {
	left, _ := filepath.Glob(filepath.Join(r.o.Dir, positionsDir, "*.json"))
	for _, path := range left {
		if id := strings.TrimSuffix(filepath.Base(path), ".json"); !keep(id) {
			_ = os.Remove(path)
		}
	}
}

// Close ends all routes. A later Router continues them.
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
