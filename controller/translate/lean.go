package translate

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
)

// LeanPod leaves out of a pod what nobody here reads: images, commands, environment, probes and statuses of containers
// are most of its size. While a pod is resized its containers' statuses say what it still holds.
func LeanPod(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	pod.ManagedFields = nil
	if pod.Spec.SchedulerName == v1alpha1.FargateScheduler {
		return pod, nil // its microVM is made from it
	}
	delete(pod.Annotations, corev1.LastAppliedConfigAnnotation)
	resizing := Resizing(pod)
	LeanContainers(pod.Spec.InitContainers)
	LeanContainers(pod.Spec.Containers)
	pod.Spec.EphemeralContainers = nil
	pod.Status.EphemeralContainerStatuses = nil
	if !resizing {
		pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses = nil, nil
	}
	leanStatuses(pod.Status.InitContainerStatuses)
	leanStatuses(pod.Status.ContainerStatuses)
	return pod, nil
}

// LeanContainers leaves out of containers what decides nothing of where their pod may go.
func LeanContainers(containers []corev1.Container) {
	for i := range containers {
		c := &containers[i]
		containers[i] = corev1.Container{
			Name: c.Name, Ports: c.Ports, Resources: c.Resources, RestartPolicy: c.RestartPolicy,
		}
	}
}

func leanStatuses(statuses []corev1.ContainerStatus) {
	for i := range statuses {
		s := &statuses[i]
		statuses[i] = corev1.ContainerStatus{Name: s.Name, Resources: s.Resources, AllocatedResources: s.AllocatedResources}
	}
}
