package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/microvm"
)

// How long to wait for a host to report a new microVM's address, or to remove a microVM, before returning an error
// that makes the caller retry.
const (
	startWait  = 20 * time.Second
	removeWait = 10 * time.Second
)

// key returns the key of a microVM's MicroVM object.
func (h *Host) key(id string) client.ObjectKey {
	return client.ObjectKey{Namespace: v1alpha1.HostNamespace(h.name), Name: id}
}

// Start implements microvm.Host.
func (h *Host) Start(ctx context.Context, spec microvm.Spec) (netip.Addr, error) {
	if d := h.Describe(); !d.Ready {
		return netip.Addr{}, errors.New(d.Message)
	}
	key := h.key(spec.ID)
	vm := &v1alpha1.MicroVM{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, Finalizers: []string{v1alpha1.FinalizerMicroVM},
		},
		Spec: v1alpha1.MicroVMSpec{Pod: *podFor(spec.Pod), Profile: spec.Profile, Size: spec.Size.List()},
	}
	if err := h.o.Client.Create(ctx, vm); err != nil && !apierrors.IsAlreadyExists(err) {
		return netip.Addr{}, fmt.Errorf("create MicroVM %s: %w", key, err)
	}
	limited, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	ip, err := h.awaitAddress(limited, key)
	if err != nil && ctx.Err() == nil { // the pod gets another host and must not run here, too
		err = errors.Join(err, client.IgnoreNotFound(h.o.Client.Delete(ctx, vm)))
	}
	return ip, err
}

// awaitAddress waits until the host has started a microVM.
func (h *Host) awaitAddress(ctx context.Context, key client.ObjectKey) (ip netip.Addr, err error) {
	err = h.await(ctx, func() (bool, error) {
		vm := &v1alpha1.MicroVM{}
		err := h.o.Cache.Get(ctx, key, vm)
		switch {
		case apierrors.IsNotFound(err):
			return false, nil // the cache lags behind
		case err != nil:
			return false, err
		case vm.DeletionTimestamp != nil:
			return false, fmt.Errorf("MicroVM %s is being removed", key)
		case vm.Status.Error != "":
			return false, errors.New(vm.Status.Error)
		case vm.Status.Address == "":
			return false, nil
		}
		ip, err = h.checkAddress(vm.Status.Address)
		return true, err
	})
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("the host did not start the microVM within %s", startWait)
	}
	return ip, err
}

// checkAddress parses an address and checks that it belongs to the host: a host must not claim other hosts'
// addresses.
func (h *Host) checkAddress(address string) (netip.Addr, error) {
	h.mu.Lock()
	pods, err := netip.ParsePrefix(h.object.Spec.PodCIDR)
	h.mu.Unlock()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("spec.podCIDR of the MicroVMHost: %w", err)
	}
	ip, err := netip.ParseAddr(address)
	if err == nil && !pods.Contains(ip) {
		err = fmt.Errorf("the host gives its microVM the address %s, which is not among its own (%s)", address, pods)
	}
	return ip, err
}

// await calls done, and again each time a microVM of the host changes, until done returns true or an error.
func (h *Host) await(ctx context.Context, done func() (bool, error)) error {
	for {
		h.mu.Lock()
		news := h.news
		h.mu.Unlock()
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// podFor returns the pod that its host gets: without metadata that others maintain, and without the status, which the
// host reports, except for the conditions of readiness gates.
func podFor(pod *corev1.Pod) *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Generation: pod.Generation,
		CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp, Labels: pod.Labels,
		Annotations: pod.Annotations, OwnerReferences: pod.OwnerReferences,
	}, Spec: pod.Spec}
	out.Status.Phase, out.Status.QOSClass = corev1.PodPending, pod.Status.QOSClass
	out.Status.Conditions = microvm.GateConditions(pod)
	return out.DeepCopy()
}

// read reads a MicroVM by its ID. It returns ErrUnknown if there is none.
func (h *Host) read(ctx context.Context, id string) (*v1alpha1.MicroVM, error) {
	vm := &v1alpha1.MicroVM{}
	err := h.o.Cache.Get(ctx, h.key(id), vm)
	if apierrors.IsNotFound(err) {
		return nil, microvm.ErrUnknown
	}
	return vm, err
}

// Status implements microvm.Host.
func (h *Host) Status(ctx context.Context, id string) (microvm.Status, error) {
	vm, err := h.read(ctx, id)
	if err != nil {
		return microvm.Status{}, err
	}
	if vm.Status.Pod == nil {
		s := vm.Spec.Pod.Status
		s.Conditions = nil // those of readiness gates are not the host's
		return microvm.Status{Pod: s, Ended: vm.Status.Ended}, nil
	}
	return microvm.Status{Pod: *vm.Status.Pod, Ended: vm.Status.Ended}, nil
}

// Follow implements microvm.Follower.
func (h *Host) Follow(ctx context.Context, id string, pod *corev1.Pod) error {
	vm, err := h.read(ctx, id)
	if errors.Is(err, microvm.ErrUnknown) {
		return nil
	}
	if err != nil {
		return err
	}
	have, want := &vm.Spec.Pod, podFor(pod)
	if maps.Equal(have.Labels, want.Labels) && maps.Equal(have.Annotations, want.Annotations) &&
		equality.Semantic.DeepEqual(have.Spec, want.Spec) &&
		equality.Semantic.DeepEqual(have.Status.Conditions, want.Status.Conditions) {
		return nil
	}
	before := vm.DeepCopy()
	vm.Spec.Pod = *want
	return client.IgnoreNotFound(h.o.Client.Patch(ctx, vm, client.MergeFrom(before)))
}

// Stop implements microvm.Host.
func (h *Host) Stop(ctx context.Context, id string, graceSeconds int64) error {
	vm, err := h.read(ctx, id)
	if err != nil {
		return err
	}
	before := vm.DeepCopy()
	vm.Spec.StopGraceSeconds = &graceSeconds
	err = h.o.Client.Patch(ctx, vm, client.MergeFrom(before))
	if apierrors.IsNotFound(err) {
		return microvm.ErrUnknown
	}
	return err
}

// Remove implements microvm.Host.
func (h *Host) Remove(ctx context.Context, id string) error {
	vm, err := h.read(ctx, id)
	if err != nil {
		return err
	}
	if vm.DeletionTimestamp == nil {
		if err := h.o.Client.Delete(ctx, vm); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete MicroVM %s: %w", h.key(id), err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, removeWait)
	defer cancel()
	err = h.await(ctx, func() (bool, error) {
		_, err := h.read(ctx, id)
		if errors.Is(err, microvm.ErrUnknown) {
			return true, nil
		}
		return false, err
	})
	if err != nil {
		return fmt.Errorf("the host has not removed it yet: %w", err)
	}
	return nil
}
