// Package latest bridges the moment between a write and its arrival in a watch cache: whoever wrote an object reads it
// as written, so that no step is done twice for having looked too early.
package latest

import (
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Objects are what was written and not yet seen. The zero value is ready. It is safe for concurrent use.
type Objects[T client.Object] struct {
	mu      sync.Mutex
	written map[types.UID]T
}

// Wrote keeps an object as the API server returned it. It must not be changed afterwards.
func (o *Objects[T]) Wrote(object T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.written == nil {
		o.written = map[types.UID]T{}
	}
	if had, ok := o.written[object.GetUID()]; !ok || version(object) > version(had) {
		o.written[object.GetUID()] = object
	}
}

// Of is the newer of what the cache shows and what was written.
func (o *Objects[T]) Of(cached T) T {
	o.mu.Lock()
	defer o.mu.Unlock()
	w, ok := o.written[cached.GetUID()]
	if !ok {
		return cached
	}
	if version(cached) >= version(w) {
		delete(o.written, cached.GetUID())
		return cached
	}
	return w
}

// Forget drops an object that is gone.
func (o *Objects[T]) Forget(uid types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.written, uid)
}

// version is the resource version as a number; Kubernetes 1.35 and later promise that those of one kind can be compared.
func version(o client.Object) uint64 {
	v, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return v
}
