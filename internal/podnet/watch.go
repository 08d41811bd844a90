package podnet

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/nodeless/nodeless/internal/podnet/services"
)

// watch sees all Services and EndpointSlices.
type watch struct {
	factory  informers.SharedInformerFactory
	services corelisters.ServiceLister
	slices   discoverylisters.EndpointSliceLister
	has      []cache.InformerSynced
	changed  chan struct{} // holds one if anything has changed since it was taken
}

func newWatch(kube kubernetes.Interface) *watch {
	f := informers.NewSharedInformerFactory(kube, 0)
	w := &watch{
		factory: f, services: f.Core().V1().Services().Lister(), slices: f.Discovery().V1().EndpointSlices().Lister(), changed: make(chan struct{}, 1),
	}
	seen := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { w.kick() }, UpdateFunc: func(_, _ any) { w.kick() }, DeleteFunc: func(any) { w.kick() },
	}
	for _, i := range []cache.SharedIndexInformer{f.Core().V1().Services().Informer(), f.Discovery().V1().EndpointSlices().Informer()} {
		if handler, err := i.AddEventHandler(seen); err == nil { // it fails only when stopped
			w.has = append(w.has, handler.HasSynced)
		}
	}
	return w
}

func (w *watch) kick() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func (w *watch) run(ctx context.Context) error {
	w.factory.Start(ctx.Done())
	<-ctx.Done()
	w.factory.Shutdown()
	return nil
}

// synced waits until all is known; false if ctx is done before.
func (w *watch) synced(ctx context.Context) bool { return cache.WaitForCacheSync(ctx.Done(), w.has...) }

func (w *watch) objects() ([]*corev1.Service, []*discoveryv1.EndpointSlice) {
	all, _ := w.services.List(labels.Everything()) // a cache does not fail
	slices, _ := w.slices.List(labels.Everything())
	return all, slices
}

func (w *watch) snapshot() *services.Snapshot { return services.New(w.objects()) }

// pause between two changes of the rules: what changes meanwhile is seen by the second.
const pause = 50 * time.Millisecond

// follow keeps rules, names and our own slices as Services and EndpointSlices say, until ctx is done; then it takes our slices back. What fails is tried
// again.
func (n *Net) follow(ctx context.Context) {
	defer n.withdraw(context.WithoutCancel(ctx))
	regularly := time.NewTicker(n.o.Every)
	defer regularly.Stop()
	do := n.program
	for {
		n.snapshot.Store(n.watch.snapshot())
		if err := errors.Join(do(), n.publish(ctx)); err != nil && ctx.Err() == nil {
			n.o.Log.Warn("not all Services can be reached from microVMs; it is tried again", "error", err)
		}
		n.isReady()
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		do = n.program
		select {
		case <-n.watch.changed:
		case <-regularly.C:
			do = n.look
		case <-ctx.Done():
			return
		}
	}
}
