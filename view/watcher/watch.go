package watcher

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// watch starts to watch one kind.
func (f *Feed) watch(ctx context.Context, s source) error {
	informer := toolscache.NewSharedIndexInformer(f.noting(s), s.object, 0, toolscache.Indexers{})
	// Errors already become notes of the model; client-go's own handler would write over the screen.
	quiet := func(context.Context, *toolscache.Reflector, error) {}
	if err := informer.SetWatchErrorHandlerWithContext(quiet); err != nil {
		return fmt.Errorf("watch %s: %w", s.resource, err)
	}
	if err := informer.SetTransform(s.strip); err != nil {
		return fmt.Errorf("watch %s: %w", s.resource, err)
	}
	registered, err := informer.AddEventHandler(s.handler())
	if err != nil {
		return fmt.Errorf("watch %s: %w", s.resource, err)
	}
	there := registered.HasSynced
	if s.filled != nil {
		there = func() bool {
			if !registered.HasSynced() {
				return false
			}
			s.filled()
			return true
		}
		go toolscache.WaitForCacheSync(ctx.Done(), there) // even if nobody calls Wait
	}
	f.filled = append(f.filled, there)
	go informer.RunWithContext(ctx)
	return nil
}

// strip turns an object from the wire into a kept. It may be called again with its own result.
func (s source) strip(object any) (any, error) {
	facts, meta := s.keep(object)
	if meta == nil {
		return object, nil // already stripped, or a tombstone of a deleted object
	}
	return &kept{meta.GetNamespace(), meta.GetName(), meta.GetResourceVersion(), facts}, nil
}

func (s source) handler() toolscache.ResourceEventHandler {
	tell := func(old, now any) {
		before, _ := old.(*kept)
		after, _ := now.(*kept)
		switch {
		case before != nil && after != nil:
			s.seen(before.facts, after.facts)
		case before != nil:
			s.seen(before.facts, nil)
		case after != nil:
			s.seen(nil, after.facts)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(now any) { tell(nil, now) },
		UpdateFunc: tell,
		DeleteFunc: func(old any) {
			if missed, ok := old.(toolscache.DeletedFinalStateUnknown); ok {
				old = missed.Obj
			}
			tell(old, nil)
		},
	}
}

// noting lists and watches a kind, and says so in the model's notes while that fails.
func (f *Feed) noting(s source) *toolscache.ListWatch {
	narrow := s.narrow
	if narrow == nil {
		narrow = func(*metav1.ListOptions) {}
	}
	base := toolscache.NewFilteredListWatchFromClient(s.client, s.resource, s.namespace, narrow)
	note := func(ctx context.Context, verb string, err error) {
		switch {
		case err == nil:
			f.o.Model.Note(s.resource, "")
		case ctx.Err() == nil:
			f.o.Model.Note(s.resource, fmt.Sprintf("what is shown of %s may be old: %s: %v", s.resource, verb, err))
		}
	}
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := base.ListWithContextFunc(ctx, o)
			note(ctx, "list", err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := base.WatchFuncWithContext(ctx, o)
			note(ctx, "watch", err)
			return w, err
		},
	}
}
