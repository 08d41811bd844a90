// Package ahead launches nodes before pods need them, where the need is known in advance.
//
// A CronJob says when it runs next, and its template says what its pods need. About one node boot time before the
// run, the cluster state receives placeholders for these pods, and nodes are launched and kept for them as for any
// pods. Each pod replaces one placeholder; capacity that is left over is released if the pods do not come.
//
// A NodeClaim says when it expires. The same time ahead, its node counts as being removed, so that nodes are launched
// for its pods.
//
// Whether to launch ahead, and how far ahead, follows from the costs of a Pending pod and of an idle node: see
// Planner.
package ahead

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/events"
	"github.com/nodeless/nodeless/internal/kit/informer"
	"github.com/nodeless/nodeless/internal/kit/workqueue"
)

// Options configure a Controller.
type Options struct {
	Planner  Planner         // required
	Cache    cache.Cache     // required
	CronJobs bool            // whether the process may read CronJobs
	Recorder events.Recorder // required
	Registry prometheus.Registerer
	Clock    clock.Clock  // default the real one
	Log      *slog.Logger // default slog.Default
}

// Controller prepares capacity for the next runs of all CronJobs and for the pods of nodes that expire. It is safe
// for concurrent use.
type Controller struct {
	o       Options
	queue   *workqueue.Queue                  // of CronJobs as namespace/name and NodeClaims as /name
	leading atomic.Bool                       // Run was called
	runs    map[types.NamespacedName]*awaited // by CronJob; used by one worker at a time
	idle    *idleNodes
}

// New returns a Controller. It adds a handler to the cache, which must not be synced yet, and registers its metrics.
func New(ctx context.Context, o Options) (*Controller, error) {
	c := newController(o)
	err := informer.Watch(ctx, o.Cache, &karpv1.NodeClaim{}, c.watchExpiry)
	if err == nil && o.CronJobs {
		err = informer.Watch(ctx, o.Cache, &batchv1.CronJob{}, informer.Latest(func(o client.Object) {
			c.queue.Add(client.ObjectKeyFromObject(o).String())
		}))
	}
	if err != nil {
		return nil, fmt.Errorf("ahead: %w", err)
	}
	return c, nil
}

func newController(o Options) *Controller {
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Controller{
		o: o, queue: workqueue.New("ahead", o.Clock, o.Log), runs: map[types.NamespacedName]*awaited{},
		idle: newIdleNodes(o.Registry),
	}
}

// Prime prepares capacity for the runs that are due. Before that, nodes launched for them look empty. The cache must
// be synced.
func (c *Controller) Prime(ctx context.Context) error {
	if !c.o.CronJobs {
		return nil
	}
	var list batchv1.CronJobList
	if err := c.o.Cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list CronJobs: %w", err)
	}
	for i := range list.Items {
		if _, err := c.reconcile(ctx, client.ObjectKeyFromObject(&list.Items[i]).String()); err != nil {
			return err
		}
	}
	return nil
}

// Run works until ctx is done. The cache must be synced.
func (c *Controller) Run(ctx context.Context) error {
	if err := c.resume(ctx); err != nil {
		return fmt.Errorf("ahead: %w", err)
	}
	c.queue.Run(ctx, 1, c.reconcile)
	return nil
}

// Decided records a plan and the snapshot it was made from.
func (c *Controller) Decided(s *model.Snapshot, p *model.Plan) {
	c.idle.decided(s, p, c.o.Planner.State.Awaited())
}
