// Package mutationcache bridges the time between a write and its arrival in a watch cache: a writer reads the object
// as written, so that no step is repeated because of a stale read. It is client-go's MutationCache for typed objects.
package mutationcache

import (
	"context"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cache holds the objects that were written and have not arrived yet. The zero value is ready. It is safe for
// concurrent use.
type Cache[T client.Object] struct {
	mu      sync.Mutex
	written map[types.UID]T
}

// Mutated keeps an object as the API server returned it. The object must not be changed afterwards.
func (c *Cache[T]) Mutated(object T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.written == nil {
		c.written = map[types.UID]T{}
	}
	if had, ok := c.written[object.GetUID()]; !ok || version(object) > version(had) {
		c.written[object.GetUID()] = object
	}
}

// Newest returns the newer of what the watch cache shows and what was written.
func (c *Cache[T]) Newest(cached T) T {
	c.mu.Lock()
	defer c.mu.Unlock()
	w, ok := c.written[cached.GetUID()]
	if !ok {
		return cached
	}
	if version(cached) >= version(w) {
		delete(c.written, cached.GetUID())
		return cached
	}
	return w
}

// PatchStatus writes the status of an object if it differs from before, the object as read, and reports whether it
// did. The patch fails with a conflict if the object has changed since it was read.
func (c *Cache[T]) PatchStatus(ctx context.Context, api client.Client, before, now T) (bool, error) {
	if equality.Semantic.DeepEqual(before, now) {
		return false, nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := api.Status().Patch(ctx, now, patch); err != nil {
		return false, err
	}
	c.Mutated(now.DeepCopyObject().(T))
	return true, nil
}

// Forget drops a deleted object.
func (c *Cache[T]) Forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.written, uid)
}

// version returns the resource version as a number. Kubernetes 1.35 and later promise that the versions of one kind
// can be compared.
func version(o client.Object) uint64 {
	v, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return v
}
