// Package buffers keeps room free for pods that are not there yet: it reads CapacityBuffers (autoscaling.x-k8s.io/v1beta1),
// gives the world placeholders for the pods that each of them asks room for, and writes what became of them. A change of a
// buffer, or of what it refers to, counts at once.
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

// Options are what a Keeper needs.
type Options struct {
	Cache    cache.Cache     // required
	Client   client.Client   // required; writes statuses
	World    *cluster.World  // required
	Recorder events.Recorder // required
	Clock    clock.Clock     // default the real one
	Log      *slog.Logger    // default slog.Default
}

// Keeper keeps the buffers of a cluster. It is safe for concurrent use.
type Keeper struct {
	ctx   context.Context // handlers of events read the cache, which may not be filled when it is told to end
	o     Options
	queue *workqueue.Queue
	wrote mutationcache.Cache[*autoscaling.CapacityBuffer]

	mu      sync.Mutex
	watched map[string]bool                    // kinds that buffers refer to
	answers map[types.NamespacedName]answer    // what the newest plan did with a buffer's placeholders
	last    map[types.NamespacedName]time.Time // when a buffer's status was last written
}

// New is a Keeper until ctx is done. It registers handlers on the cache, which must not be synced yet.
func New(ctx context.Context, o Options) (*Keeper, error) {
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	k := &Keeper{
		ctx: ctx, o: o, queue: workqueue.New("CapacityBuffer", o.Clock, o.Log), watched: map[string]bool{},
		answers: map[types.NamespacedName]answer{}, last: map[types.NamespacedName]time.Time{},
	}
	for _, w := range []struct {
		object client.Object
		seen   func(client.Object)
	}{
		{&autoscaling.CapacityBuffer{}, func(b client.Object) { k.queue.Add(client.ObjectKeyFromObject(b).String()) }},
		{&corev1.LimitRange{}, func(o client.Object) { k.changed("", o) }},
	} {
		if err := informer.Watch(ctx, o.Cache, w.object, specs(w.seen)); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// Prime gives the world the placeholders of all buffers there are. Before it has, machines that buffers keep look empty.
// The cache must be synced.
func (k *Keeper) Prime(ctx context.Context) error {
	list := &autoscaling.CapacityBufferList{}
	if err := k.o.Cache.List(ctx, list); err != nil {
		return fmt.Errorf("list CapacityBuffers: %w", err)
	}
	for i := range list.Items {
		if _, err := k.reserve(ctx, &list.Items[i]); err != nil {
			k.o.Log.Warn("room of a CapacityBuffer is not known yet; its machines may count as empty", "capacitybuffer",
				client.ObjectKeyFromObject(&list.Items[i]), "error", err)
		}
	}
	return nil
}

// Run works until ctx is done. The cache must be synced.
func (k *Keeper) Run(ctx context.Context) error {
	k.queue.Run(ctx, 4, k.buffer)
	return nil
}

// kinds are the objects that buffers refer to. They are watched once a buffer does.
var kinds = map[string]func() client.Object{
	"PodTemplate":               func() client.Object { return &corev1.PodTemplate{} },
	autoscaling.KindDeployment:  func() client.Object { return &appsv1.Deployment{} },
	autoscaling.KindStatefulSet: func() client.Object { return &appsv1.StatefulSet{} },
	autoscaling.KindReplicaSet:  func() client.Object { return &appsv1.ReplicaSet{} },
}

// watchLimit is how long the first look at a kind may take.
const watchLimit = 15 * time.Second

// watch makes the cache know all objects of a kind, and their changes count.
func (k *Keeper) watch(ctx context.Context, kind string) error {
	k.mu.Lock()
	known := k.watched[kind]
	k.mu.Unlock()
	if known {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, watchLimit, errors.New("it takes too long; may this process list and watch them?"))
	defer cancel()
	_, err := k.o.Cache.GetInformer(ctx, kinds[kind]()) // waits until all are known
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("watch %ss: %w", kind, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.watched[kind] {
		return nil
	}
	if err := informer.Watch(ctx, k.o.Cache, kinds[kind](), specs(func(o client.Object) { k.changed(kind, o) })); err != nil {
		return err
	}
	k.watched[kind] = true
	return nil
}

// changed has the buffers that refer to an object looked at again; of no kind, those of its namespace.
func (k *Keeper) changed(kind string, o client.Object) {
	list := &autoscaling.CapacityBufferList{}
	if err := k.o.Cache.List(k.ctx, list, client.InNamespace(o.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		k.o.Log.Warn("CapacityBuffers cannot be listed", "error", err)
		return
	}
	for i := range list.Items {
		b := &list.Items[i]
		if at, name := source(b); kind == "" || at == kind && name == o.GetName() {
			k.queue.Add(client.ObjectKeyFromObject(b).String())
		}
	}
}

// source is the kind and name of what a buffer takes its pods' template from.
func source(b *autoscaling.CapacityBuffer) (kind, name string) {
	switch {
	case b.Spec.PodTemplateRef != nil:
		return "PodTemplate", b.Spec.PodTemplateRef.Name
	case b.Spec.ScalableRef != nil:
		return b.Spec.ScalableRef.Kind, b.Spec.ScalableRef.Name
	}
	return "", ""
}

// specs tells of objects that come, go or get another spec; other changes of a workload are many and no matter.
func specs(seen func(client.Object)) func(old, now client.Object) {
	latest := informer.Latest(seen)
	return func(old, now client.Object) {
		if old != nil && now != nil && old.GetUID() == now.GetUID() && old.GetGeneration() == now.GetGeneration() && now.GetGeneration() != 0 &&
			old.GetDeletionTimestamp().Equal(now.GetDeletionTimestamp()) {
			return
		}
		latest(old, now)
	}
}
