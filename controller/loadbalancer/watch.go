package loadbalancer

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/nodeless/nodeless/internal/kit/signal"
)

// watched caches the objects that load balancers are made of.
type watched struct {
	changed signal.Signal
	unbound signal.Signal // a TargetGroupBinding was deleted, perhaps before the start
	factory informers.SharedInformerFactory
	dynamic dynamicinformer.DynamicSharedInformerFactory
	synced  []cache.InformerSynced
}

func watch(kube kubernetes.Interface, others dynamic.Interface) *watched {
	f := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithTransform(trim))
	w := &watched{
		changed: signal.New(), unbound: signal.New(), factory: f,
		dynamic: dynamicinformer.NewDynamicSharedInformerFactory(others, 0),
	}
	w.unbound.Set()
	changed := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { w.changed.Set() }, UpdateFunc: func(_, _ any) { w.changed.Set() },
		DeleteFunc: func(any) { w.changed.Set() },
	}
	bound := w.dynamic.ForResource(bindings).Informer()
	_, _ = bound.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(any) {
		w.unbound.Set()
		w.changed.Set() // again, since the handlers run in no particular order
	}})
	// Nodes are cached without an event handler: their status changes often, and few load balancers target them.
	f.Core().V1().Nodes().Informer()
	for _, i := range []cache.SharedIndexInformer{
		f.Networking().V1().Ingresses().Informer(), f.Networking().V1().IngressClasses().Informer(),
		f.Core().V1().Services().Informer(), f.Discovery().V1().EndpointSlices().Informer(),
		bound, w.dynamic.ForResource(params).Informer(),
		w.dynamic.ForResource(autoModeParams).Informer(),
	} {
		if h, err := i.AddEventHandler(changed); err == nil { // it fails only when stopped
			w.synced = append(w.synced, h.HasSynced)
		}
	}
	return w
}

// trim drops fields that are not read here.
func trim(o any) (any, error) {
	if m, ok := o.(metav1.Object); ok {
		m.SetManagedFields(nil)
	}
	if n, ok := o.(*corev1.Node); ok {
		n.Annotations = nil
		n.Status = corev1.NodeStatus{Conditions: n.Status.Conditions}
	}
	return o, nil
}

// start fills the caches; it returns false if ctx is done first.
func (w *watched) start(ctx context.Context) bool {
	w.factory.Start(ctx.Done())
	w.dynamic.Start(ctx.Done())
	for _, ok := range w.factory.WaitForCacheSync(ctx.Done()) {
		if !ok {
			return false
		}
	}
	return cache.WaitForCacheSync(ctx.Done(), w.synced...)
}

// objects returns the cached objects. A cache's lister never fails.
func (w *watched) objects(cluster string) *objects {
	o := &objects{
		cluster: cluster, classes: map[string]*networkingv1.IngressClass{}, services: map[string]*corev1.Service{},
		slices: map[string][]*discoveryv1.EndpointSlice{},
	}
	all := labels.Everything()
	o.ingresses, _ = w.factory.Networking().V1().Ingresses().Lister().List(all)
	classes, _ := w.factory.Networking().V1().IngressClasses().Lister().List(all)
	for _, c := range classes {
		o.classes[c.Name] = c
	}
	services, _ := w.factory.Core().V1().Services().Lister().List(all)
	for _, s := range services {
		o.services[s.Namespace+"/"+s.Name] = s
	}
	slices, _ := w.factory.Discovery().V1().EndpointSlices().Lister().List(all)
	for _, s := range slices {
		key := s.Namespace + "/" + s.Labels[discoveryv1.LabelServiceName]
		o.slices[key] = append(o.slices[key], s)
	}
	o.nodes, _ = w.factory.Core().V1().Nodes().Lister().List(all)
	o.params = map[string]*unstructured.Unstructured{}
	for _, kind := range []schema.GroupVersionResource{params, autoModeParams} {
		for _, p := range w.list(kind) {
			o.params[kind.Group+"/"+p.GetName()] = p
		}
	}
	return o
}

// list returns the objects of a kind that is not one of Kubernetes' own.
func (w *watched) list(kind schema.GroupVersionResource) []*unstructured.Unstructured {
	found, _ := w.dynamic.ForResource(kind).Lister().List(labels.Everything())
	var out []*unstructured.Unstructured
	for _, o := range found {
		if u, ok := o.(*unstructured.Unstructured); ok {
			out = append(out, u)
		}
	}
	return out
}

// stop waits until the caches have stopped, after the context of start is done.
func (w *watched) stop() {
	w.factory.Shutdown()
	w.dynamic.Shutdown()
}

// podReader reads the few pods that wait for a readiness gate.
type podReader struct {
	ctx     context.Context
	kube    kubernetes.Interface
	found   map[string]*corev1.Pod
	waiting bool // one of them has one of our readiness gates
	failed  error
}

func (r *podReader) get(namespace, name string) (*corev1.Pod, error) {
	key := namespace + "/" + name
	if p, ok := r.found[key]; ok {
		return p, nil
	}
	p, err := r.kube.CoreV1().Pods(namespace).Get(r.ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		p = nil
	case err != nil:
		r.failed = fmt.Errorf("read pod %s: %w", key, err)
		return nil, r.failed
	}
	if p != nil && hasGate(p, isGate) {
		r.waiting = true
	}
	r.found[key] = p
	return p, nil
}

// kindOf returns an object's kind for use in a sentence.
func kindOf(o any) string {
	switch o.(type) {
	case *networkingv1.Ingress:
		return "Ingress"
	case *corev1.Service:
		return "Service"
	}
	return "object"
}
