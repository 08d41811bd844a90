// Package conditions looks up status conditions without adding missing ones.
package conditions

import (
	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
)

// Object has conditions: a NodeClaim, a NodePool, a node class.
type Object interface {
	GetConditions() []status.Condition
}

// Of returns the object's condition of that type, or nil.
func Of(o Object, kind string) *status.Condition {
	return find(o.GetConditions(), func(c *status.Condition) bool { return c.Type == kind })
}

// IsTrue reports whether the object's condition of that type is True.
func IsTrue(o Object, kind string) bool {
	c := Of(o, kind)
	return c != nil && c.Status == "True"
}

// OfNode returns the Node's condition of that type, or nil.
func OfNode(node *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	return find(node.Status.Conditions, func(c *corev1.NodeCondition) bool { return c.Type == kind })
}

// OfPod returns the pod's condition of that type, or nil.
func OfPod(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	return find(pod.Status.Conditions, func(c *corev1.PodCondition) bool { return c.Type == kind })
}

// NodeReady reports whether the Node's condition Ready is True.
func NodeReady(node *corev1.Node) bool {
	c := OfNode(node, corev1.NodeReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// PodReady reports whether the pod's condition Ready is True.
func PodReady(pod *corev1.Pod) bool {
	c := OfPod(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

func find[C any](list []C, match func(*C) bool) *C {
	for i := range list {
		if match(&list[i]) {
			return &list[i]
		}
	}
	return nil
}
