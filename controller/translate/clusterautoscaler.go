package translate

import (
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Annotations of Cluster Autoscaler that keep their meaning: on a pod that is not safe to evict, and on a Node that
// must not be removed (github.com/kubernetes/autoscaler/cluster-autoscaler/FAQ.md, "What types of pods can prevent CA
// from removing a node?").
const (
	AnnotationSafeToEvict       = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	AnnotationScaleDownDisabled = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
)

// HeldBy returns the annotation that protects a pod from disruption: Karpenter's if the pod has it, otherwise Cluster
// Autoscaler's; "" if it has neither.
func HeldBy(pod *corev1.Pod) string {
	if _, karpenters := pod.Annotations[karpv1.DoNotDisruptAnnotationKey]; karpenters {
		return karpv1.DoNotDisruptAnnotationKey
	}
	if pod.Annotations[AnnotationSafeToEvict] == "false" {
		return AnnotationSafeToEvict
	}
	return ""
}

// NodeHeldBy returns the annotation that protects a Node from disruption; "" if there is none.
func NodeHeldBy(node *corev1.Node) string {
	for _, key := range []string{karpv1.DoNotDisruptAnnotationKey, AnnotationScaleDownDisabled} {
		if node.Annotations[key] == "true" {
			return key
		}
	}
	return ""
}
