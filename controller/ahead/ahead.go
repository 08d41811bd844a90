// Package ahead has nodes ready when pods need them, where that is known before.
//
// A CronJob says when it runs next, and its template what its pods need. Before that, by the time that nodes take to
// boot, the cluster state gets placeholders for these pods, for which nodes are launched and kept like for any pods.
// Each pod takes the place of one placeholder; what is left is given back if the pods do not come.
//
// A NodeClaim says when it expires. By the same time before, its node counts as one being removed, so that nodes are
// launched for its pods.
//
// Whether to launch ahead, and how long ahead, follows from what a Pending pod and an idle node cost: see Planner.
package ahead

import (
	"context"
	"fmt"
	"log/slog"

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

// Options are what a Controller needs.
type Options struct {
	Planner  Planner         // required
	Cache    cache.Cache     // required
	CronJobs bool            // the process may read them
	Recorder events.Recorder // required
	Registry prometheus.Registerer
	Clock    clock.Clock  // default the real one
	Log      *slog.Logger // default slog.Default
}

// Controller prepares room for the next runs of all CronJobs and for the pods of nodes that expire. It is safe for
// concurrent use.
type Controller struct {
	o     Options
	queue *workqueue.Queue                  // of CronJobs as namespace/name and NodeClaims as /name
	runs  map[types.NamespacedName]*awaited // by CronJob; used by one worker at a time
	idle  *idleNodes
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

// Prime prepares room for the runs that are due. Until then nodes that were launched for them look empty. The cache
// must be synced.
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
	c.queue.Run(ctx, 1, c.reconcile)
	return nil
}

// Decided takes note of a plan and the snapshot it was made of.
func (c *Controller) Decided(s *model.Snapshot, p *model.Plan) {
	c.idle.decided(s, p, c.o.Planner.State.Awaited())
}
