// Package nodeclaim carries each machine through its life: a NodeClaim is launched, its Node is registered and
// initialized, later drained and terminated; what was lost on the way is collected.
//
// A NodeClaim is the record of an intent: everything here can be stopped at any line and is taken up again from the
// objects and the cloud. Names and order of the steps: shared/reference/karpenter.md §3, §7.
package nodeclaim

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/gates"
	"github.com/nodeless/nodeless/controller/metrics"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/events"
	"github.com/nodeless/nodeless/internal/kit/mutationcache"
	"github.com/nodeless/nodeless/internal/kit/workqueue"
)

// Options are what a Lifecycle needs.
type Options struct {
	Cloud    cloud.Provider  // required
	Cache    cache.Cache     // required; New adds indexes to it, so it must not be started before
	Client   client.Client   // required; must read from the API server itself
	World    *cluster.World  // required
	Recorder events.Recorder // required
	Clock    clock.Clock     // default the real one
	Log      *slog.Logger    // default slog.Default
	// Annotations are what a claim gets noted at its launch beside what it has, such as its node class's hash; may be nil.
	Annotations func(*karpv1.NodeClaim) map[string]string
	// RefreshClass reads a node class anew, past the cache; may be nil.
	RefreshClass func(context.Context, cloud.ClassRef)
	// Registered is told of each launch of a NodePool's machine whether its Node was registered in the end; may be nil.
	Registered func(claim *karpv1.NodeClaim, yes bool)
	// Nominate is told of each Node of a claim before pods may come to it; required where the gate Nominations is on.
	Nominate func(ctx context.Context, claim, node string)
	// Deleting is told of each NodeClaim that is asked to go, and of what for, in a word or two; may be nil.
	Deleting func(claim *karpv1.NodeClaim, why string)
	// Gates says which optional parts are on.
	Gates gates.Gates
	// Metrics are counted where things happen; nil = they are not.
	Metrics *metrics.Counters
	// Launches is how many machines are asked for at the same time; default 64.
	Launches int
}

// Workers for claims that need no launch, and for nodes that are drained.
const workers = 16

// driftWorkers mostly wait, for one answer together.
const driftWorkers = 128

// Lifecycle is the machines' caretaker.
type Lifecycle struct {
	o       Options
	metrics *metrics.Counters

	claims, launches, nodes, drifting *workqueue.Queue

	wroteClaims mutationcache.Cache[*karpv1.NodeClaim]
	wroteNodes  mutationcache.Cache[*corev1.Node]
	lists       *lister

	policies []cloud.RepairPolicy // what the cloud wants repaired
	leads    atomic.Bool          // Run was called

	mu       sync.Mutex // guards all below
	inFlight map[string]bool
	memory
}

// New is a Lifecycle. It registers indexes and handlers on the cache.
func New(ctx context.Context, o Options) (*Lifecycle, error) {
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Launches <= 0 {
		o.Launches = 64
	}
	l := &Lifecycle{
		o: o, metrics: o.Metrics,
		claims:   workqueue.New("NodeClaim", o.Clock, o.Log),
		launches: workqueue.New("launch", o.Clock, o.Log),
		nodes:    workqueue.New("drain", o.Clock, o.Log),
		drifting: workqueue.New("drift", o.Clock, o.Log),
		inFlight: map[string]bool{}, memory: newMemory(),
	}
	if repairer, ok := o.Cloud.(cloud.Repairer); ok {
		l.policies = repairer.RepairPolicies()
	}
	l.lists = newLister(o.Cloud.List)
	if err := l.index(ctx); err != nil {
		return nil, fmt.Errorf("lifecycle: %w", err)
	}
	if err := l.watch(ctx); err != nil {
		return nil, fmt.Errorf("lifecycle: %w", err)
	}
	return l, nil
}

// Run works until ctx is done. The cache must be synced.
func (l *Lifecycle) Run(ctx context.Context) error {
	if err := l.inherit(ctx); err != nil {
		return fmt.Errorf("lifecycle: %w", err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { l.claims.Run(ctx, workers, l.claim) })
	wg.Go(func() { l.launches.Run(ctx, l.o.Launches, l.launch) })
	wg.Go(func() { l.nodes.Run(ctx, workers, l.node) })
	wg.Go(func() { l.drifting.Run(ctx, driftWorkers, l.askCloud) })
	wg.Go(func() { l.collectForever(ctx) })
	if source, ok := l.o.Cloud.(cloud.Interrupter); ok {
		wg.Go(func() { l.interruptions(ctx, source) })
	}
	if source, ok := l.o.Cloud.(cloud.HealthChecker); ok {
		wg.Go(func() { l.examine(ctx, source) })
	}
	wg.Wait()
	return nil
}

func (l *Lifecycle) now() time.Time { return l.o.Clock.Now() }

// every calls f again and again, each time as long after the last as f says, until ctx is done.
func (l *Lifecycle) every(ctx context.Context, f func() time.Duration) {
	for ctx.Err() == nil {
		due := make(chan struct{})
		timer := l.o.Clock.AfterFunc(f(), func() { close(due) })
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-due:
		}
	}
}
