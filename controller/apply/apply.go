// Package apply carries out plans by writing to the Kubernetes API, and does nothing else. It is idempotent: the
// names of the objects it creates are derived from the plan's content, so that nothing is created twice after a
// crash. If the cluster has changed since the plan was made, it refuses and reports why: a conflict calls for a new
// plan and is never forced.
package apply

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/controller/metrics"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/events"
)

// Options configure an Applier.
type Options struct {
	Client   client.Client     // required; must read from the API server itself
	State    *cluster.State    // required
	Recorder events.Recorder   // default: events are dropped
	Clock    clock.Clock       // default the real one
	Log      *slog.Logger      // default slog.Default
	Parallel int               // concurrent API calls; default 16
	Metrics  *metrics.Counters // default: metrics that are not registered
}

// Applier carries out plans. Apply and Advance must not be called by several goroutines at once.
type Applier struct {
	o     Options
	pods  *podReporter
	nodes *nodeReporter
}

var _ cycle.Applier = (*Applier)(nil)

// New returns an Applier.
func New(o Options) *Applier {
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Recorder == nil {
		o.Recorder = silent{}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Metrics == nil {
		o.Metrics = metrics.New(nil)
	}
	if o.Parallel <= 0 {
		o.Parallel = 16
	}
	return &Applier{o: o, pods: newPodReporter(o), nodes: newNodeReporter(o)}
}

type silent struct{}

func (silent) Event(runtime.Object, string, string, string) {}

// Resync reads all NodeClaims into the cluster state. A watch may begin with a list from an API server cache that is
// older than a former leader's writes and lacks the newest claims. This list is as new as the call.
func (a *Applier) Resync(ctx context.Context) error {
	var claims karpv1.NodeClaimList
	if err := a.o.Client.List(ctx, &claims); err != nil {
		return fmt.Errorf("list NodeClaims: %w", err)
	}
	for i := range claims.Items {
		a.o.State.ObserveClaim(&claims.Items[i])
	}
	return nil
}

// Apply carries out a plan that was made from the snapshot. It returns when all API calls have been answered.
func (a *Applier) Apply(ctx context.Context, s *model.Snapshot, p model.Plan) cycle.Result {
	r := cycle.Result{Claims: map[string]string{}}
	r.Add(a.launch(ctx, s, p.Launches))
	r.Add(a.remove(ctx, s, p.Removals))
	r.Add(a.begin(ctx, s, p.Commands))
	a.log(&r)
	a.nodes.kept(s, p.Kept)
	return r
}

// Report records events on the pods that a plan decided about; claims maps launch IDs to NodeClaims.
func (a *Applier) Report(s *model.Snapshot, p model.Plan, claims map[string]string) {
	a.pods.report(s, &p, claims)
}

// log logs refusals and errors.
func (a *Applier) log(r *cycle.Result) {
	for _, refusal := range r.Refused {
		a.o.Log.Info("part of a plan is out of date", "object", refusal.Object, "why", refusal.Why)
	}
	for _, err := range r.Errors {
		a.o.Log.Warn("part of a plan failed; the next plan tries again", "error", err)
	}
}

// parallel calls do for every item, several at a time, and adds up the results.
func parallel[T any](limit int, items []T, do func(T) cycle.Result) cycle.Result {
	var r cycle.Result
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(limit)
	for _, item := range items {
		group.Go(func() error {
			part := do(item)
			mu.Lock()
			defer mu.Unlock()
			r.Add(part)
			return nil
		})
	}
	_ = group.Wait() // the errors are in r
	return r
}

func refused(object, why string) cycle.Result {
	return cycle.Result{Refused: []cycle.Refusal{{Object: object, Why: why}}}
}

func failed(err error) cycle.Result { return cycle.Result{Errors: []error{err}} }
