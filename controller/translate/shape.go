package translate

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/nodeless/nodeless/engine/model"
)

// Shape translates everything that determines where a pod may run. It never fails: Unmodelled lists what cannot be
// translated. storage looks up the objects behind the pod's volumes; if it is nil, such volumes are Unmodelled.
func (n *Names) Shape(pod *corev1.Pod, storage Storage) model.Shape {
	s := model.Shape{
		Tolerations: Tolerations(pod.Spec.Tolerations),
		Namespace:   pod.Namespace, Labels: labelsOf(pod.Labels),
		HostPorts: hostPorts(&pod.Spec),
	}
	requests, err := n.Resources(resourcehelper.PodRequests(pod, asHeld))
	if err != nil {
		s.Unmodelled = append(s.Unmodelled, err.Error())
	}
	s.Requests = requests
	s.Requests[model.Pods] = 1
	addNodeAffinity(&s, pod)
	addPodAffinity(&s, pod)
	addSpread(&s, pod)
	addDisks(&s, pod)
	addVolumes(&s, pod, storage)
	n.addDevices(&s, pod, storage)
	slices.Sort(s.Unmodelled)
	s.Unmodelled = slices.Compact(s.Unmodelled)
	s.Key = n.shapeKey(&s)
	return s
}

// asHeld makes PodRequests count as kube-scheduler does: while a pod is being resized in place, the larger of what it
// requests and what it still holds.
var asHeld = resourcehelper.PodResourcesOptions{
	UseStatusResources: true,
	InPlacePodLevelResourcesVerticalScalingEnabled: true,
}

// Resizing reports whether the pod holds resources other than its spec says.
func Resizing(pod *corev1.Pod) bool {
	reported := func(s corev1.ContainerStatus) bool { return s.Resources != nil || s.AllocatedResources != nil }
	if pod.Status.Resources == nil && pod.Status.AllocatedResources == nil &&
		!slices.ContainsFunc(pod.Status.ContainerStatuses, reported) &&
		!slices.ContainsFunc(pod.Status.InitContainerStatuses, reported) {
		return false
	}
	spec := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	for name, held := range resourcehelper.PodRequests(pod, asHeld) {
		if said := spec[name]; said.Cmp(held) != 0 {
			return true
		}
	}
	return false
}

// labelsOf returns labels by key, nil if there are none.
func labelsOf(labels map[string]string) []model.Label {
	if len(labels) == 0 {
		return nil
	}
	out := make([]model.Label, 0, len(labels))
	for k, v := range labels {
		out = append(out, model.Label{Key: k, Value: v})
	}
	slices.SortFunc(out, func(a, b model.Label) int { return cmp.Compare(a.Key, b.Key) })
	return out
}

// Namespace translates a namespace.
func Namespace(ns *corev1.Namespace) model.Namespace {
	return model.Namespace{Name: ns.Name, Labels: labelsOf(ns.Labels)}
}

// hostPorts returns the ports of the node that the pod's containers and sidecars use, sorted. The API server sets
// them for pods on the host network, too.
func hostPorts(spec *corev1.PodSpec) []model.HostPort {
	var out []model.HostPort
	add := func(ports []corev1.ContainerPort) {
		for _, p := range ports {
			if p.HostPort > 0 {
				out = append(out, model.HostPort{
					IP:       cmp.Or(p.HostIP, "0.0.0.0"),
					Protocol: string(cmp.Or(p.Protocol, corev1.ProtocolTCP)), Port: p.HostPort,
				})
			}
		}
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(c.Ports)
		}
	}
	for i := range spec.Containers {
		add(spec.Containers[i].Ports)
	}
	slices.SortFunc(out, func(a, b model.HostPort) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.IP, b.IP))
	})
	return slices.Compact(out)
}
