package agent

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/microvm"
)

// Pods lists and watches the pods of a host: those in its MicroVMs. The host may not read others.
func Pods(cfg *rest.Config, host string) (toolscache.ListerWatcher, error) {
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: kinds()})
	if err != nil {
		return nil, fmt.Errorf("pods of host %s: %w", host, err)
	}
	in := v1alpha1.HostNamespace(host)
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			var vms v1alpha1.MicroVMList
			if err := c.List(ctx, &vms, &client.ListOptions{Namespace: in, Raw: &o}); err != nil {
				return nil, err
			}
			pods := &corev1.PodList{ListMeta: vms.ListMeta}
			for i := range vms.Items {
				pods.Items = append(pods.Items, *podOf(&vms.Items[i]))
			}
			return pods, nil
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := c.Watch(ctx, &v1alpha1.MicroVMList{}, &client.ListOptions{Namespace: in, Raw: &o})
			if err != nil {
				return nil, err
			}
			return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
				vm, ok := e.Object.(*v1alpha1.MicroVM)
				switch {
				case ok && e.Type == watch.Bookmark: // its annotation may say that the list is complete
					e.Object = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
						ResourceVersion: vm.ResourceVersion, Annotations: vm.Annotations,
					}}
				case ok:
					e.Object = podOf(vm)
				}
				return e, true // errors stay as they are
			}), nil
		},
	}, nil
}

// podOf returns the pod of a microVM with its latest status, to which the controller contributes the conditions of
// readiness gates.
func podOf(vm *v1alpha1.MicroVM) *corev1.Pod {
	pod := vm.Spec.Pod.DeepCopy()
	if vm.Status.Pod != nil {
		gates := microvm.GateConditions(pod)
		pod.Status = *vm.Status.Pod.DeepCopy()
		pod.Status.Conditions = append(pod.Status.Conditions, gates...)
	}
	if pod.DeletionTimestamp == nil {
		pod.DeletionTimestamp = vm.DeletionTimestamp
	}
	pod.ResourceVersion = vm.ResourceVersion
	return pod
}
