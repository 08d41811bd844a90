package capture

import (
	"context"
	"fmt"
	"time"

	ec2v1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/eksv1"
	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/controller/translate"
)

// refreshInterval is how often the offers of classes are read again, since prices change.
const refreshInterval = time.Minute

// Open reads the cluster and watches it until ctx is done. It returns when the first Snapshot is complete. Errors
// say what could not be read, why, and what to do.
func Open(ctx context.Context, cfg *rest.Config, o Options) (*Cluster, error) {
	c, err := connect(ctx, cfg, o)
	if err != nil {
		return nil, err
	}
	var watched []kind
	for _, k := range c.kinds() {
		err := c.mayWatch(ctx, k)
		if err == nil {
			watched = append(watched, k)
		}
		if err := c.tolerate(k, err); err != nil {
			return nil, err
		}
	}
	ignoreDevices(c)
	store, err := cache.New(cfg, cache.Options{
		Scheme: scheme.Scheme, DefaultTransform: cache.TransformStripManagedFields(), ReaderFailOnMissingInformer: true,
		ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {Transform: translate.LeanPod}},
	})
	if err != nil {
		return nil, ExplainUnreachable(c.server, err)
	}
	synced, err := c.addHandlers(ctx, store, watched)
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancelCause(ctx)
	go func() { end(store.Start(life)) }()
	if !toolscache.WaitForCacheSync(life.Done(), synced...) {
		return nil, fmt.Errorf("watch cluster %s: %w", c.server, context.Cause(life))
	}
	c.synced.Store(true)
	c.offerAll(ctx)
	go c.refreshOffers(ctx)
	return c, nil
}

// mayWatch lists one object of a kind and checks the permission to watch it. Neither leaves a trace in the cluster.
func (c *Cluster) mayWatch(ctx context.Context, k kind) error {
	list, err := k.newList()
	if err != nil {
		return err
	}
	if err := c.client.List(ctx, list, client.Limit(1)); err != nil {
		return k.explain(c.server, "list", err)
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "watch", Group: k.group, Resource: k.resource},
	}}
	if err := c.client.Create(ctx, review); err == nil && !review.Status.Allowed {
		return &MissingKind{Kind: k.name(), Verb: "watch", err: fmt.Errorf("the cluster says so: %q", review.Status.Reason)}
	}
	return nil
}

// addHandlers registers handlers for every change.
func (c *Cluster) addHandlers(ctx context.Context, store cache.Cache, watched []kind) ([]toolscache.InformerSynced,
	error,
) {
	handler := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { c.onUpdate(ctx, o) },
		UpdateFunc: func(_, o any) { c.onUpdate(ctx, o) },
		DeleteFunc: func(o any) { c.onDelete(ctx, o) },
	}
	var synced []toolscache.InformerSynced
	for _, k := range watched {
		informer, err := store.GetInformer(ctx, k.object, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, k.explain(c.server, "watch", err)
		}
		registration, err := informer.AddEventHandler(handler)
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", k.name(), err)
		}
		synced = append(synced, registration.HasSynced)
	}
	return synced, nil
}

func (c *Cluster) onUpdate(ctx context.Context, o any) {
	object, ok := o.(client.Object)
	if !ok {
		return
	}
	c.update(object)
	switch o.(type) {
	case *ec2v1.EC2NodeClass, *eksv1.NodeClass, *v1alpha1.NodeGroup, *karpv1.NodePool:
		if c.synced.Load() { // before that, the cluster's region is unknown
			c.offerAll(ctx)
		}
	}
}

func (c *Cluster) onDelete(ctx context.Context, o any) {
	if missed, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = missed.Obj
	}
	object, ok := o.(client.Object)
	if !ok {
		return
	}
	if name, class := ClassOf(object); class != nil {
		c.mu.Lock()
		delete(c.classes, name)
		c.mu.Unlock()
		c.offerAll(ctx)
		return
	}
	c.State.Delete(object)
}

// refreshOffers reads offers again every refreshInterval until ctx is done.
func (c *Cluster) refreshOffers(ctx context.Context) {
	again := make(chan struct{}, 1)
	for {
		timer := c.o.Clock.AfterFunc(refreshInterval, func() {
			select {
			case again <- struct{}{}:
			default:
			}
		})
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-again:
			c.offerAll(ctx)
		}
	}
}
