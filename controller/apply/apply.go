// Package apply carries a plan out: it writes to the Kubernetes API, and nowhere else. It is idempotent: the names of
// what it creates follow from the plan's content, so that a crash and a replay create nothing twice. Where the cluster
// has moved on it does nothing and says so: a conflict means a new plan, never a forced one.
package apply

import (
	"context"
	"fmt"
	"log/slog"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/cycle"
	"github.com/nodeless/nodeless/controller/metrics"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/reason"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/events"
)

// Options are what an Actor needs.
type Options struct {
	// Client writes, and reads claims, one when a name is taken, all in Recall: what it reads must not come from a
	// cache. Required.
	Client   client.Client
	State    *cluster.State            // required
	Recorder events.Recorder           // default: events are dropped
	Clock    clock.Clock               // default the real one
	Explain  func(model.Reason) string // default engine/reason
	Log      *slog.Logger              // default slog.Default
	Parallel int                       // creates at the same time; default 16
	Metrics  *metrics.Counters         // nil = nothing is counted
}

// Actor carries out plans. Apply is for one goroutine at a time.
type Applier struct {
	o        Options
	reporter *reporter
	machines *machineReporter
}

// New is an Actor.
func New(o Options) *Applier {
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Recorder == nil {
		o.Recorder = silent{}
	}
	if o.Explain == nil {
		o.Explain = reason.Pod
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Parallel <= 0 {
		o.Parallel = 16
	}
	return &Applier{o: o, reporter: newReporter(o), machines: newMachineReporter(o)}
}

// Resync reads all NodeClaims into the cluster state. A watch may begin with a list from a cache of the API server
// that is older than what a former leader wrote: its newest claims are missing then. This list is as new as the call.
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

// Apply carries out the plan that was made of the snapshot. It returns when all API calls were answered.
func (a *Applier) Apply(ctx context.Context, s *model.Snapshot, p model.Plan) cycle.Result {
	var r cycle.Result
	r.Claims = a.launch(ctx, s, p.Launches, &r)
	a.remove(ctx, s, p.Removals, &r)
	a.begin(ctx, s, p.Commands, &r)
	a.log(&r)
	a.machines.kept(s, p.Kept)
	return r
}

// Report says on pods what a plan for them decided; claims are the NodeClaims by the ID of the launch they are for.
// Nobody waits for it.
func (a *Applier) Report(s *model.Snapshot, p model.Plan, claims map[string]string) {
	a.reporter.report(s, &p, claims)
}

// log says what was not done.
func (a *Applier) log(r *cycle.Result) {
	for _, refusal := range r.Refused {
		a.o.Log.Info("part of a plan was no longer right", "object", refusal.Object, "why", refusal.Why)
	}
	for _, err := range r.Errors {
		a.o.Log.Warn("part of a plan failed; the next plan tries again", "error", err)
	}
}

type silent struct{}

func (silent) Event(runtime.Object, string, string, string) {}
