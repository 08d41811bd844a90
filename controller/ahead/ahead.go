// Package ahead has nodes ready when the pods of CronJobs are created. A CronJob says when it runs next, and its
// template what its pods need. Before that, by the time that nodes take to boot, the cluster state gets
// placeholders for these pods, for which nodes are launched and kept like for any pods. Each pod takes the place
// of one placeholder; what is left is given back if the pods do not come.
//
// Whether to launch ahead, and how long ahead, follows from what a Pending pod and an idle node cost: see Planner.
package ahead

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	Client   client.Reader   // required; asks whether CronJobs may be listed
	Recorder events.Recorder // required
	Registry prometheus.Registerer
	Clock    clock.Clock  // default the real one
	Log      *slog.Logger // default slog.Default
}

// Controller prepares room for the next runs of all CronJobs. It is safe for concurrent use.
type Controller struct {
	o     Options
	queue *workqueue.Queue
	runs  map[types.NamespacedName]*awaited // by CronJob; used by one worker at a time
	idle  *idleNodes

	mu       sync.Mutex
	watching bool // CronJobs are being watched
	told     bool // that they cannot be
}

// New returns a Controller. It registers its metrics.
func New(o Options) *Controller {
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Controller{
		o: o, queue: workqueue.New("CronJob", o.Clock, o.Log), runs: map[types.NamespacedName]*awaited{},
		idle: newIdleNodes(o.Registry),
	}
}

// Prime prepares room for the runs that are due, so that nodes that were launched for them do not look empty. The
// cache must be synced.
func (c *Controller) Prime(ctx context.Context) error {
	if !c.watch(ctx) {
		return nil
	}
	var list batchv1.CronJobList
	if err := c.o.Cache.List(ctx, &list); err != nil {
		return fmt.Errorf("list CronJobs: %w", err)
	}
	for i := range list.Items {
		key := client.ObjectKeyFromObject(&list.Items[i]).String()
		again, err := c.reconcile(ctx, key)
		if err != nil {
			return err
		}
		if again > 0 {
			c.queue.After(key, again)
		}
	}
	return nil
}

// Run works until ctx is done. The cache must be synced.
func (c *Controller) Run(ctx context.Context) error {
	c.queue.Add(watchKey)
	c.queue.Run(ctx, 1, c.reconcile)
	return nil
}

const (
	watchKey   = ""               // of the queue: CronJobs are to be watched
	watchAgain = 5 * time.Minute  // how long after a failure it is tried again
	watchLimit = 15 * time.Second // how long the first list may take
)

// watch has the cache read CronJobs, and reports whether it does. It says once that they cannot be read: then
// nothing is launched ahead.
func (c *Controller) watch(ctx context.Context) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watching {
		return true
	}
	err := c.tryWatch(ctx)
	c.watching = err == nil
	if err != nil && ctx.Err() == nil && !c.told {
		c.told = true
		c.o.Log.Warn("CronJobs cannot be read: no nodes are launched ahead of their runs", "error", err)
	}
	return c.watching
}

func (c *Controller) tryWatch(ctx context.Context) error {
	// An informer without permission would ask for ever.
	if err := c.o.Client.List(ctx, &batchv1.CronJobList{}, client.Limit(1)); err != nil {
		if apierrors.IsForbidden(err) {
			return fmt.Errorf("%w; allow this process to get, list and watch cronjobs.batch", err)
		}
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, watchLimit, errors.New("listing CronJobs takes too long"))
	defer cancel()
	if _, err := c.o.Cache.GetInformer(ctx, &batchv1.CronJob{}); err != nil { // waits until all are known
		return errors.Join(context.Cause(ctx), err)
	}
	return informer.Watch(ctx, c.o.Cache, &batchv1.CronJob{}, informer.Latest(func(o client.Object) {
		c.queue.Add(client.ObjectKeyFromObject(o).String())
	}))
}

// Decided takes note of a plan and the snapshot it was made of.
func (c *Controller) Decided(s *model.Snapshot, p *model.Plan) {
	c.idle.decided(s, p, c.o.Planner.State.Awaited())
}
