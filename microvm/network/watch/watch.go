// Package watch sees all Services and EndpointSlices of a cluster: what its network and its DNS follow from.
package watch

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/nodeless/nodeless/microvm/network/services"
)

// Watch sees them once Run was called.
type Watch struct {
	Services corelisters.ServiceLister
	Slices   discoverylisters.EndpointSliceLister
	// Changed holds one if anything has changed since it was taken.
	Changed chan struct{}

	without func(*discoveryv1.EndpointSlice) bool
	factory informers.SharedInformerFactory
	has     []cache.InformerSynced
}

// New is a Watch that sees nothing yet. Its snapshots are without the slices that are said to be; nil: with all.
func New(kube kubernetes.Interface, without func(*discoveryv1.EndpointSlice) bool) *Watch {
	f := informers.NewSharedInformerFactory(kube, 0)
	w := &Watch{
		without: without, factory: f, Services: f.Core().V1().Services().Lister(),
		Slices: f.Discovery().V1().EndpointSlices().Lister(), Changed: make(chan struct{}, 1),
	}
	seen := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { w.kick() }, UpdateFunc: func(_, _ any) { w.kick() }, DeleteFunc: func(any) { w.kick() },
	}
	for _, i := range []cache.SharedIndexInformer{
		f.Core().V1().Services().Informer(),
		f.Discovery().V1().EndpointSlices().Informer(),
	} {
		if handler, err := i.AddEventHandler(seen); err == nil { // it fails only when stopped
			w.has = append(w.has, handler.HasSynced)
		}
	}
	return w
}

func (w *Watch) kick() {
	select {
	case w.Changed <- struct{}{}:
	default:
	}
}

// Run watches until ctx is done.
func (w *Watch) Run(ctx context.Context) error {
	w.factory.Start(ctx.Done())
	<-ctx.Done()
	w.factory.Shutdown()
	return nil
}

// Synced waits until all is known; false if ctx is done before.
func (w *Watch) Synced(ctx context.Context) bool { return cache.WaitForCacheSync(ctx.Done(), w.has...) }

func (w *Watch) objects() ([]*corev1.Service, []*discoveryv1.EndpointSlice) {
	all, _ := w.Services.List(labels.Everything()) // a cache does not fail
	endpoints, _ := w.Slices.List(labels.Everything())
	if w.without != nil {
		endpoints = slices.DeleteFunc(slices.Clone(endpoints), w.without)
	}
	return all, endpoints
}

// Snapshot is what there is now.
func (w *Watch) Snapshot() *services.Snapshot { return services.New(w.objects()) }
