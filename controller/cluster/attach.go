package cluster

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
)

// Attach feeds the State from a cache's informers and returns once it has seen every object. The caller starts the
// cache, before or concurrently.
func (s *State) Attach(ctx context.Context, c cache.Cache) error {
	handler := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    s.handleUpdate,
		UpdateFunc: func(_, now any) { s.handleUpdate(now) },
		DeleteFunc: s.handleDelete,
	}
	var synced []toolscache.InformerSynced
	watched := slices.Clone(kinds)
	if s.watchNetworks {
		watched = append(watched, networks...)
	}
	if s.watchNetworks && s.readsAll(ctx, settings) {
		watched = append(watched, settings...)
		s.setWindowsKnown()
	}
	optional := owning
	if s.storage.spread.config.Spreads() {
		optional = slices.Concat(owning, spreading)
	}
	for _, kind := range optional {
		if s.readable != nil && s.readable(ctx, kind.object) {
			watched = append(watched, kind)
			s.storage.spread.watched[reflect.TypeOf(kind.object).Elem().Name()] = true
		}
	}
	if s.readsAll(ctx, allocations) {
		watched = append(watched, allocations...)
		s.devices.setKnown()
	}
	if s.readsAll(ctx, capacityKinds) {
		watched = append(watched, capacityKinds...)
		s.pods.watchesCapacities()
	}
	for _, kind := range watched {
		if _, overlay := kind.object.(*v1alpha1.NodeOverlay); overlay && !s.watchOverlays {
			continue
		}
		informer, err := c.GetInformer(ctx, kind.object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind.object, err)
		}
		registration, err := informer.AddEventHandler(handler)
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind.object, err)
		}
		synced = append(synced, registration.HasSynced)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), synced...) {
		return fmt.Errorf("watch the cluster: %w", context.Cause(ctx))
	}
	return nil
}

// readsAll reports whether all of the kinds may be read.
func (s *State) readsAll(ctx context.Context, list []kind) bool {
	return s.readable != nil && !slices.ContainsFunc(list, func(k kind) bool { return !s.readable(ctx, k.object) })
}

func (s *State) handleUpdate(o any) {
	if object, ok := o.(client.Object); ok {
		s.Update(object)
	}
}

func (s *State) handleDelete(o any) {
	if missed, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = missed.Obj
	}
	if object, ok := o.(client.Object); ok {
		s.Delete(object)
	}
}
