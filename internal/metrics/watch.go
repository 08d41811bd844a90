package metrics

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// watch calls saw with each state of each object of a kind, old is nil for the first, and gone with its last.
func watch(ctx context.Context, from cache.Cache, object client.Object, saw func(old, now client.Object), gone func(client.Object)) error {
	informer, err := from.GetInformer(ctx, object, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("metrics: watch %T: %w", object, err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if now, ok := o.(client.Object); ok {
				saw(nil, now)
			}
		},
		UpdateFunc: func(before, after any) {
			old, _ := before.(client.Object)
			if now, ok := after.(client.Object); ok {
				saw(old, now)
			}
		},
		DeleteFunc: func(o any) {
			if missed, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = missed.Obj
			}
			if last, ok := o.(client.Object); ok {
				gone(last)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("metrics: watch %T: %w", object, err)
	}
	return nil
}

// Watch measures the pods of a cache from now on.
func (p *PodTimes) Watch(ctx context.Context, from cache.Cache) error {
	return watch(ctx, from, &corev1.Pod{},
		func(_, now client.Object) { p.Saw(now.(*corev1.Pod)) }, func(o client.Object) { p.Gone(o.(*corev1.Pod)) })
}
