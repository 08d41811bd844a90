package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// microVM reconciles one microVM.
func (a *Agent) microVM(ctx context.Context, id string) (time.Duration, error) {
	vm := &v1alpha1.MicroVM{}
	err := a.cache.Get(ctx, client.ObjectKey{Namespace: v1alpha1.HostNamespace(a.o.Name), Name: id}, vm)
	switch {
	case apierrors.IsNotFound(err):
		return 0, a.remove(ctx, id) // the MicroVM object is gone
	case err != nil:
		return 0, err
	case vm.DeletionTimestamp != nil:
		return 0, a.end(ctx, vm)
	}
	before := vm.DeepCopy()
	if vm.Status.Address == "" && !vm.Status.Ended {
		a.start(ctx, vm)
	}
	if vm.Status.Address != "" {
		if err := a.follow(ctx, vm); err != nil {
			return 0, err
		}
	}
	return 0, a.write(ctx, before, vm)
}

// end removes a microVM from the host, and then the finalizer from its object.
func (a *Agent) end(ctx context.Context, vm *v1alpha1.MicroVM) error {
	if err := a.remove(ctx, vm.Name); err != nil {
		return err
	}
	before := vm.DeepCopy()
	controllerutil.RemoveFinalizer(vm, v1alpha1.FinalizerMicroVM)
	return client.IgnoreNotFound(a.client.Patch(ctx, vm, client.MergeFrom(before)))
}

func (a *Agent) remove(ctx context.Context, id string) error {
	if err := a.o.Host.Remove(ctx, id); err != nil && !errors.Is(err, microvm.ErrUnknown) {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.stopped, id)
	return nil
}

// start starts a microVM, and records its address or why it could not be started.
func (a *Agent) start(ctx context.Context, vm *v1alpha1.MicroVM) {
	if vm.Spec.StopGraceSeconds != nil {
		vm.Status.Ended = true // stopped before it started
		return
	}
	ip, err := a.o.Host.Start(ctx, microvm.Spec{
		ID: vm.Name, Pod: &vm.Spec.Pod, Size: fargate.SizeOf(vm.Spec.Size), Profile: vm.Spec.Profile,
	})
	if err != nil {
		vm.Status.Error = err.Error()
		return
	}
	vm.Status.Address, vm.Status.Error = ip.String(), ""
}

// follow passes a stop request on to the host, and records the status of the pod.
func (a *Agent) follow(ctx context.Context, vm *v1alpha1.MicroVM) error {
	if err := a.stop(ctx, vm); err != nil {
		return err
	}
	status, err := a.o.Host.Status(ctx, vm.Name)
	if errors.Is(err, microvm.ErrUnknown) {
		lost := vm.Spec.Pod.Status
		lost.Conditions = nil // those of readiness gates are not this host's
		if vm.Status.Pod != nil {
			lost = *vm.Status.Pod
		}
		lost.Phase, lost.Reason, lost.Message = corev1.PodFailed, "MicroVMLost",
			"The microVM of the pod is gone from its host"
		vm.Status.Pod, vm.Status.Ended = &lost, true
		return nil
	}
	if err != nil {
		return err
	}
	vm.Status.Ended = status.Ended
	if status.Pod.Phase != "" { // otherwise the host does not know the pod, which is being removed
		vm.Status.Pod = &status.Pod
	}
	return nil
}

// stop tells the host to stop a pod: once, and again whenever the grace period becomes shorter.
func (a *Agent) stop(ctx context.Context, vm *v1alpha1.MicroVM) error {
	if vm.Spec.StopGraceSeconds == nil {
		return nil
	}
	a.mu.Lock()
	told, stopping := a.stopped[vm.Name]
	a.mu.Unlock()
	if stopping && told <= *vm.Spec.StopGraceSeconds {
		return nil
	}
	if err := a.o.Host.Stop(ctx, vm.Name, *vm.Spec.StopGraceSeconds); err != nil && !errors.Is(err, microvm.ErrUnknown) {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped[vm.Name] = *vm.Spec.StopGraceSeconds
	return nil
}

// write writes a microVM's status, if it has changed.
func (a *Agent) write(ctx context.Context, before, vm *v1alpha1.MicroVM) error {
	patch := client.MergeFrom(before)
	if data, err := patch.Data(vm); err != nil || string(data) == "{}" {
		return err
	}
	if err := a.client.Status().Patch(ctx, vm, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of MicroVM %s: %w", vm.Name, err)
	}
	return nil
}
