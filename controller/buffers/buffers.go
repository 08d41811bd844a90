// Package buffers keeps capacity free for pods that do not exist yet. It reads CapacityBuffers
// (autoscaling.x-k8s.io/v1beta1), gives the cluster state placeholders for the pods of each buffer, and reports their
// outcome in the buffer's status. A change of a buffer, or of an object it refers to, takes effect at once.
package buffers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	autoscaling "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"

	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/events"
	"github.com/nodeless/nodeless/internal/kit/informer"
	"github.com/nodeless/nodeless/internal/kit/mutationcache"
	"github.com/nodeless/nodeless/internal/kit/workqueue"
)

// Options configure a Controller.
type Options struct {
	Cache    cache.Cache     // required
	Client   client.Client   // required; writes statuses
	Cluster  *cluster.State  // required
	Recorder events.Recorder // required
	Clock    clock.Clock     // default the real one
	Log      *slog.Logger    // default slog.Default
}

// Controller reconciles the buffers of a cluster. It is safe for concurrent use.
type Controller struct {
	ctx   context.Context // for event handlers, which read the cache; it may be done before the cache is filled
	o     Options
	queue *workqueue.Queue
	wrote mutationcache.Cache[*autoscaling.CapacityBuffer]

	mu      sync.Mutex
	watched map[string]bool // kinds that buffers refer to
	state   map[types.NamespacedName]bufferState
}

// bufferState is what the Controller remembers of one buffer.
type bufferState struct {
	answer  answer    // the outcome of its placeholders in the newest plan
	written time.Time // when its status was last written
}

// New returns a Controller that works until ctx is done. It adds handlers to the cache, which must not be synced yet.
func New(ctx context.Context, o Options) (*Controller, error) {
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	c := &Controller{
		ctx: ctx, o: o, queue: workqueue.New("CapacityBuffer", o.Clock, o.Log), watched: map[string]bool{},
		state: map[types.NamespacedName]bufferState{},
	}
	for _, w := range []struct {
		object client.Object
		seen   func(client.Object)
	}{
		{&autoscaling.CapacityBuffer{}, func(b client.Object) { c.queue.Add(client.ObjectKeyFromObject(b).String()) }},
		{&corev1.LimitRange{}, func(o client.Object) { c.changed("", o) }},
	} {
		if err := informer.Watch(ctx, o.Cache, w.object, specs(w.seen)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Prime adds the placeholders of all buffers to the cluster state. Before that, nodes kept for buffers look empty.
// The cache must be synced.
func (c *Controller) Prime(ctx context.Context) error {
	list := &autoscaling.CapacityBufferList{}
	if err := c.o.Cache.List(ctx, list); err != nil {
		return fmt.Errorf("list CapacityBuffers: %w", err)
	}
	for i := range list.Items {
		if _, err := c.reserve(ctx, &list.Items[i]); err != nil {
			c.o.Log.Warn("the placeholders of a CapacityBuffer are not known yet; its nodes may look empty", "capacitybuffer",
				client.ObjectKeyFromObject(&list.Items[i]), "error", err)
		}
	}
	return nil
}

// Run works until ctx is done. The cache must be synced.
func (c *Controller) Run(ctx context.Context) error {
	c.queue.Run(ctx, 4, c.reconcile)
	return nil
}

// kinds are the kinds of objects that buffers refer to. Each is watched once a buffer refers to it.
var kinds = map[string]func() client.Object{
	"PodTemplate":               func() client.Object { return &corev1.PodTemplate{} },
	autoscaling.KindDeployment:  func() client.Object { return &appsv1.Deployment{} },
	autoscaling.KindStatefulSet: func() client.Object { return &appsv1.StatefulSet{} },
	autoscaling.KindReplicaSet:  func() client.Object { return &appsv1.ReplicaSet{} },
}

// watchLimit is how long the first list of a kind may take.
const watchLimit = 15 * time.Second

// watch makes the cache read all objects of a kind, and reconciles the buffers that refer to an object when it
// changes.
func (c *Controller) watch(ctx context.Context, kind string) error {
	c.mu.Lock()
	watched := c.watched[kind]
	c.mu.Unlock()
	if watched {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, watchLimit,
		errors.New("it takes too long; may this process list and watch them?"))
	defer cancel()
	_, err := c.o.Cache.GetInformer(ctx, kinds[kind]()) // waits for the first list
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("watch %ss: %w", kind, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watched[kind] {
		return nil
	}
	if err := informer.Watch(ctx, c.o.Cache, kinds[kind](),
		specs(func(o client.Object) { c.changed(kind, o) })); err != nil {
		return err
	}
	c.watched[kind] = true
	return nil
}

// changed queues the buffers that refer to an object; without a kind, all in its namespace.
func (c *Controller) changed(kind string, o client.Object) {
	list := &autoscaling.CapacityBufferList{}
	if err := c.o.Cache.List(c.ctx, list, client.InNamespace(o.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		c.o.Log.Warn("CapacityBuffers cannot be listed", "error", err)
		return
	}
	for i := range list.Items {
		b := &list.Items[i]
		if at, name := source(b); kind == "" || at == kind && name == o.GetName() {
			c.queue.Add(client.ObjectKeyFromObject(b).String())
		}
	}
}

// source returns the kind and name of the object that a buffer takes its pod template from.
func source(b *autoscaling.CapacityBuffer) (kind, name string) {
	switch {
	case b.Spec.PodTemplateRef != nil:
		return "PodTemplate", b.Spec.PodTemplateRef.Name
	case b.Spec.ScalableRef != nil:
		return b.Spec.ScalableRef.Kind, b.Spec.ScalableRef.Name
	}
	return "", ""
}

// specs passes on objects that are created, deleted or get another spec. Other changes, which are frequent for
// workloads, do not matter.
func specs(seen func(client.Object)) func(old, now client.Object) {
	latest := informer.Latest(seen)
	return func(old, now client.Object) {
		if old != nil && now != nil && old.GetUID() == now.GetUID() && old.GetGeneration() == now.GetGeneration() &&
			now.GetGeneration() != 0 &&
			old.GetDeletionTimestamp().Equal(now.GetDeletionTimestamp()) {
			return
		}
		latest(old, now)
	}
}
