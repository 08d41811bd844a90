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

// Own is the host of the instance on which the controller runs ("nodeless up"). The scheduler uses it directly; its
// MicroVMHost, like those of hosts that have joined, shows it, keeps pods away from it if spec.unschedulable is set,
// and tells other hosts how to reach its pods.
type Own struct {
	microvm.Host
	reporter
	cordoned atomic.Bool
	watchers microvm.Watchers // of cordoned
}

// NewOwn returns the host of o, cordoned if its MicroVMHost has been left so. Run reports it.
func NewOwn(ctx context.Context, o Options) (*Own, error) {
	r, err := newReporter(o)
	if err != nil {
		return nil, err
	}
	w := &Own{Host: o.Host, reporter: r}
	if err := w.recall(ctx); err != nil {
		r.o.Log.Warn("whether this machine is cordoned is not known until it is reported", "error", err)
	}
	return w, nil
}

// recall reads what the cluster has decided about the host, if it knows the host.
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
			w.o.Log.Warn("this machine is not among the microVM hosts, and hosts that have joined do not reach its pods; "+
				"retrying", "error", err)
		}
		_ = clock.Sleep(ctx, clock.Real{}, 6*w.o.Every)
	}
	return nil
}

// cordon heeds what the cluster has decided about the host.
func (w *Own) cordon(spec v1alpha1.MicroVMHostSpec) {
	if w.cordoned.Swap(spec.Unschedulable) != spec.Unschedulable {
		w.watchers.Notify("")
	}
}

// register creates the MicroVMHost, anew if it is of other addresses.
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
		return fmt.Errorf("a host has joined as %s, which is this machine's name: remove it (kubectl delete namespace %s) "+
			"and make it known again by another name", host.Name, host.Namespace)
	case have.Spec.PodCIDR == host.Spec.PodCIDR:
		return nil
	}
	host.Spec.Unschedulable = have.Spec.Unschedulable
	if err := w.client.Delete(ctx, have); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return w.client.Create(ctx, host)
}
