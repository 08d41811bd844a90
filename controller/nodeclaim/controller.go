// Package nodeclaim manages the life cycle of NodeClaims: it launches an instance, registers and initializes its
// Node, later drains the Node and terminates the instance, and collects what was lost on the way.
//
// A NodeClaim records an intent. The process may stop at any point; the next one continues from the objects and the
// cloud. Each type has one job: launcher, registrar, driftDetector, repairer, interrupter, replacements, drainer,
// nodeTerminator, terminator and collector; Controller watches and calls them in order. claimState lists the states
// of a claim. For the order and names of the steps see sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/lifecycle.
package nodeclaim

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/gates"
	"github.com/nodeless/nodeless/controller/metrics"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/coalesce"
	"github.com/nodeless/nodeless/internal/kit/events"
	"github.com/nodeless/nodeless/internal/kit/workqueue"
)

// Options configure a Controller.
type Options struct {
	Cloud    cloud.Provider  // required
	Cache    cache.Cache     // required; New adds indexes to it, so it must not have been started
	Client   client.Client   // required; must read from the API server itself
	Cluster  *cluster.State  // required
	Recorder events.Recorder // required
	Clock    clock.Clock     // default the real one
	Log      *slog.Logger    // default slog.Default
	// Annotations returns the annotations that a claim gets at its launch, such as the hash of its node class; may be
	// nil.
	Annotations func(*karpv1.NodeClaim) map[string]string
	// RefreshClass reads a node class from the API server, bypassing the cache; may be nil.
	RefreshClass func(context.Context, cloud.ClassRef)
	// Registered is called once for each launch of a NodePool, and says whether the Node registered in time; may be
	// nil.
	Registered func(claim *karpv1.NodeClaim, yes bool)
	// Nominate is called for each Node of a claim before pods may be bound to it; required if the gate Nominations is
	// open.
	Nominate func(ctx context.Context, claim, node string)
	// Deleting is called for each NodeClaim whose deletion is requested, with the reason in a word or two; may be nil.
	Deleting func(claim *karpv1.NodeClaim, why string)
	// Preflight prevents launches of claims whose nodes would have too few addresses for their pods, whenever they were
	// decided on.
	Preflight bool
	// Gates says which optional parts are on.
	Gates gates.Gates
	// Metrics counts events; default metrics that are not registered.
	Metrics *metrics.Counters
	// Launches is the maximum number of concurrent launch requests; default 64.
	Launches int
}

const (
	// workers is how many NodeClaims, and how many Nodes, are reconciled concurrently.
	workers = 16
	// driftWorkers is large because they mostly wait, many of them for the answer to one call.
	driftWorkers = 128
)

// Controller reconciles NodeClaims and terminates Nodes.
type Controller struct {
	*objects
	claims, nodes *workqueue.Queue // by name
	leading       atomic.Bool      // Run was called

	launcher     *launcher
	registrar    *registrar
	drift        *driftDetector
	repairer     *repairer
	replacements *replacements
	interrupter  *interrupter
	terminator   *terminator
	finalizer    *nodeTerminator
	collector    *collector
}

// New returns a Controller. It adds indexes and handlers to the cache.
func New(ctx context.Context, o Options) (*Controller, error) {
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Metrics == nil {
		o.Metrics = metrics.New(nil)
	}
	if o.Launches <= 0 {
		o.Launches = 64
	}
	c := newController(o)
	if err := c.index(ctx); err != nil {
		return nil, fmt.Errorf("nodeclaim: %w", err)
	}
	if err := c.watch(ctx); err != nil {
		return nil, fmt.Errorf("nodeclaim: %w", err)
	}
	return c, nil
}

// newController assembles a Controller from its parts.
func newController(o Options) *Controller {
	shared := &objects{
		cache: o.Cache, client: o.Client, cluster: o.Cluster, recorder: o.Recorder, clock: o.Clock, log: o.Log,
		metrics: o.Metrics, deleting: o.Deleting, state: &pendingState{},
	}
	claims, nodes := workqueue.New("NodeClaim", o.Clock, o.Log), workqueue.New("drain", o.Clock, o.Log)
	outcomes := &launchOutcomes{objects: shared, cloud: o.Cloud, report: o.Registered}
	instances := &instances{objects: shared, cloud: o.Cloud, lister: coalesce.New(o.Cloud.List)}
	launches := newLauncher(shared, o, outcomes, claims)
	replacements, drainer := &replacements{objects: shared, claims: claims}, &drainer{shared}
	return &Controller{
		objects: shared, claims: claims, nodes: nodes, launcher: launches, replacements: replacements,
		registrar:   newRegistrar(shared, o, outcomes),
		drift:       newDriftDetector(shared, o.Cloud, claims),
		repairer:    newRepairer(shared, o),
		interrupter: newInterrupter(shared, o.Cloud, outcomes, replacements),
		terminator: &terminator{
			objects: shared, instances: instances, launches: launches, drainer: drainer, nodes: nodes,
		},
		finalizer: &nodeTerminator{objects: shared, instances: instances, drainer: drainer},
		collector: &collector{objects: shared, instances: instances, launches: launches, outcomes: outcomes},
	}
}

// Run works until ctx is done. The cache must be synced.
func (c *Controller) Run(ctx context.Context) error {
	if err := c.resume(ctx); err != nil {
		return fmt.Errorf("nodeclaim: %w", err)
	}
	var group errgroup.Group
	for _, work := range []func(context.Context){
		func(ctx context.Context) { c.claims.Run(ctx, workers, c.reconcile) },
		func(ctx context.Context) { c.nodes.Run(ctx, workers, c.finalizer.reconcile) },
		c.launcher.run, c.drift.run, c.interrupter.run,
		func(ctx context.Context) { c.collector.run(ctx, c.drift) },
	} {
		group.Go(func() error { work(ctx); return nil })
	}
	return group.Wait()
}

// resume takes over existing objects: every claim is reconciled, and claims that name no instance may have been
// launched by an earlier process.
func (c *Controller) resume(ctx context.Context) error {
	c.leading.Store(true) // before the lists: later changes arrive as events
	var claims karpv1.NodeClaimList
	var nodes corev1.NodeList
	for _, list := range []client.ObjectList{&claims, &nodes} {
		if err := c.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list NodeClaims and Nodes: %w", err)
		}
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if claim.Status.ProviderID == "" {
			c.state.claims.update(claim.UID, func(s *claimState) { s.mayHaveInstance = true })
		}
		c.claims.Add(claim.Name)
	}
	for i := range nodes.Items {
		c.nodeChanged(nil, &nodes.Items[i])
	}
	return nil
}

// Decided records a plan that was applied; claims maps launch IDs to its NodeClaims.
func (c *Controller) Decided(s *model.Snapshot, p model.Plan, claims map[string]string) {
	c.replacements.decided(s, p, claims)
}

// ClassChanged makes the instances of a class be compared with it again.
func (c *Controller) ClassChanged(class cloud.ClassRef) {
	if c.leading.Load() {
		c.drift.classChanged(class)
	}
}

// every calls f repeatedly until ctx is done, each time after the delay that f returned.
func (o *objects) every(ctx context.Context, f func() time.Duration) {
	for ctx.Err() == nil {
		_ = clock.Sleep(ctx, o.clock, f())
	}
}
