package agent

import (
	"context"
	"fmt"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/controller/rbac"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/microvm"
)

// Own is the host on the controller's own instance ("nodeless up"). The scheduler uses it directly. Its MicroVMHost
// does the same as for a host that has joined: it makes the host visible, cordons it if spec.unschedulable is set,
// and tells other hosts how to reach its pods.
type Own struct {
	microvm.Host
	reporter
	cordoned atomic.Bool
	watchers microvm.Watchers // notified when cordoned changes
}

// NewOwn returns the host of o, cordoned if its MicroVMHost already is. Run reports it.
func NewOwn(ctx context.Context, o Options) (*Own, error) {
	r, err := newReporter(o)
	if err != nil {
		return nil, err
	}
	w := &Own{Host: o.Host, reporter: r}
	if err := w.recall(ctx); err != nil {
		r.o.Log.Warn("cannot read whether this machine is cordoned; it counts as not cordoned until its MicroVMHost can "+
			"be read", "error", err)
	}
	return w, nil
}

// recall restores the cordon from the host's MicroVMHost, if there is one.
func (w *Own) recall(ctx context.Context) error {
	host, err := getHost(ctx, w.client, w.o.Name)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil // the cluster is new
	}
	if err != nil {
		return fmt.Errorf("read MicroVMHost %s: %w", w.o.Name, err)
	}
	w.cordoned.Store(host.Spec.Unschedulable && host.Annotations[v1alpha1.AnnotationOwnHost] == "true")
	return nil
}

// Describe implements microvm.Host.
func (w *Own) Describe() microvm.Description {
	d := w.Host.Describe()
	d.Unschedulable = w.cordoned.Load()
	return d
}

// Watch implements microvm.Host.
func (w *Own) Watch(ctx context.Context, changed func(id string)) {
	go w.watchers.Watch(ctx, changed, func() []string { return nil })
	w.Host.Watch(ctx, changed)
}

// Run creates the MicroVMHost and reports to it until ctx is done.
func (w *Own) Run(ctx context.Context) error {
	go w.Watch(ctx, func(id string) {
		if id == "" {
			w.news.Set()
		}
	})
	for ctx.Err() == nil {
		err := w.register(ctx)
		if err == nil {
			err = w.beat(ctx, w.cordon)
		}
		if err != nil && ctx.Err() == nil {
			w.o.Log.Warn("cannot register this machine as a microVM host; hosts that have joined cannot reach its pods; "+
				"retrying", "error", err)
		}
		_ = clock.Sleep(ctx, clock.Real{}, 6*w.o.Every)
	}
	return nil
}

// cordon applies spec.unschedulable, and notifies watchers if it has changed.
func (w *Own) cordon(spec v1alpha1.MicroVMHostSpec) {
	if w.cordoned.Swap(spec.Unschedulable) != spec.Unschedulable {
		w.watchers.Notify("")
	}
}

// register creates the MicroVMHost, or replaces it if it has other pod addresses.
func (w *Own) register(ctx context.Context) error {
	if err := w.client.Create(ctx, rbac.HostNamespace(w.o.Name)); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the namespace of MicroVMHost %s: %w", w.o.Name, err)
	}
	host := &v1alpha1.MicroVMHost{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: v1alpha1.HostNamespace(w.o.Name), Name: w.o.Name,
			Annotations: map[string]string{v1alpha1.AnnotationOwnHost: "true"},
		},
		Spec: v1alpha1.MicroVMHostSpec{PodCIDR: w.o.Kubelets.Pods.String()},
	}
	err := w.client.Create(ctx, host)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	have, err := getHost(ctx, w.client, w.o.Name)
	if err != nil {
		return err
	}
	switch {
	case have.Annotations[v1alpha1.AnnotationOwnHost] != "true":
		return fmt.Errorf("another machine has joined as host %s, which is this machine's name: remove that host "+
			"(kubectl delete namespace %s) and register it again under another name", host.Name, host.Namespace)
	case have.Spec.PodCIDR == host.Spec.PodCIDR:
		return nil
	}
	host.Spec.Unschedulable = have.Spec.Unschedulable
	if err := w.client.Delete(ctx, have); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return w.client.Create(ctx, host)
}
