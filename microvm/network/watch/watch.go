// Package watch watches the Services and EndpointSlices of a cluster.
package watch

import (
	"context"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/nodeless/nodeless/internal/kit/signal"
	"github.com/nodeless/nodeless/microvm/network/services"
)

// Watch caches Services and EndpointSlices while Run runs.
type Watch struct {
	Services corelisters.ServiceLister
	Slices   discoverylisters.EndpointSliceLister
	// Changed is set when anything has changed.
	Changed signal.Signal

	without func(*discoveryv1.EndpointSlice) bool
	factory informers.SharedInformerFactory
	has     []cache.InformerSynced
}

// New returns a Watch. Its snapshots omit the slices for which without is true; nil omits none.
func New(kube kubernetes.Interface, without func(*discoveryv1.EndpointSlice) bool) *Watch {
	f := informers.NewSharedInformerFactory(kube, 0)
	w := &Watch{
		without: without, factory: f, Services: f.Core().V1().Services().Lister(),
		Slices: f.Discovery().V1().EndpointSlices().Lister(), Changed: signal.New(),
	}
	changed := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { w.Changed.Set() }, UpdateFunc: func(_, _ any) { w.Changed.Set() },
		DeleteFunc: func(any) { w.Changed.Set() },
	}
	for _, i := range []cache.SharedIndexInformer{
		f.Core().V1().Services().Informer(), f.Discovery().V1().EndpointSlices().Informer(),
	} {
		if handler, err := i.AddEventHandler(changed); err == nil { // it fails only when stopped
			w.has = append(w.has, handler.HasSynced)
		}
	}
	return w
}

// Run watches until ctx is done.
func (w *Watch) Run(ctx context.Context) error {
	w.factory.Start(ctx.Done())
	<-ctx.Done()
	w.factory.Shutdown()
	return nil
}

// Synced waits until all objects are cached. It returns false if ctx is done first.
func (w *Watch) Synced(ctx context.Context) bool { return cache.WaitForCacheSync(ctx.Done(), w.has...) }

// Snapshot returns the current Services.
func (w *Watch) Snapshot() *services.Snapshot {
	all, _ := w.Services.List(labels.Everything()) // a cache never fails
	endpoints, _ := w.Slices.List(labels.Everything())
	if w.without != nil {
		endpoints = slices.DeleteFunc(slices.Clone(endpoints), w.without)
	}
	return services.New(all, endpoints)
}
