// Package informer calls functions with the changes that a cache sees.
package informer

import (
	"context"
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Watch calls seen with each change to objects of a kind, given by an empty object of that kind. old is nil if the
// object was created, and now is nil if it was deleted. Watch does not wait for the cache to sync. Calls of one Watch
// never overlap.
func Watch(ctx context.Context, c cache.Cache, object client.Object, seen func(old, now client.Object)) error {
	informer, err := c.GetInformer(ctx, object, cache.BlockUntilSynced(false))
	if err == nil {
		_, err = informer.AddEventHandler(handler(seen))
	}
	if err != nil {
		return fmt.Errorf("watch %T: %w", object, err)
	}
	return nil
}

// Latest adapts a function that needs only an object's newest state, or its last state if it was deleted, for Watch.
func Latest(seen func(client.Object)) func(old, now client.Object) {
	return func(old, now client.Object) {
		if now == nil {
			now = old
		}
		seen(now)
	}
}

func handler(seen func(old, now client.Object)) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) {
			if now, ok := o.(client.Object); ok {
				seen(nil, now)
			}
		},
		UpdateFunc: func(o, n any) {
			old, ok1 := o.(client.Object)
			now, ok2 := n.(client.Object)
			if ok1 && ok2 {
				seen(old, now)
			}
		},
		DeleteFunc: func(o any) {
			if missed, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = missed.Obj
			}
			if old, ok := o.(client.Object); ok {
				seen(old, nil)
			}
		},
	}
}
