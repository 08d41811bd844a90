package translate

import (
	corev1 "k8s.io/api/core/v1"
)

// AsCreated is a pod template's spec as the API server will make it: a container that names a limit and no request
// asks for the limit, and the namespace's LimitRanges fill in what it names neither of (Kubernetes documentation,
// "Limit Ranges"). The template is not changed.
func AsCreated(spec *corev1.PodSpec, ranges []*corev1.LimitRange) corev1.PodSpec {
	out := *spec
	out.InitContainers = withRequests(spec.InitContainers, ranges)
	out.Containers = withRequests(spec.Containers, ranges)
	return out
}

func withRequests(containers []corev1.Container, ranges []*corev1.LimitRange) []corev1.Container {
	if len(containers) == 0 {
		return nil
	}
	out := make([]corev1.Container, len(containers))
	for i, c := range containers {
		requests := corev1.ResourceList{}
		fill := func(amounts corev1.ResourceList) {
			for name, amount := range amounts {
				if _, said := requests[name]; !said {
					requests[name] = amount
				}
			}
		}
		fill(c.Resources.Requests)
		fill(c.Resources.Limits)
		for _, r := range ranges {
			for _, item := range r.Spec.Limits {
				if item.Type == corev1.LimitTypeContainer {
					fill(item.DefaultRequest)
					fill(item.Default) // the API server has made it the DefaultRequest where there was none
				}
			}
		}
		c.Resources.Requests = requests
		out[i] = c
	}
	return out
}
