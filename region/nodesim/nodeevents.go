package nodesim

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// started says what a kubelet says of its own node while it starts (Kubernetes 1.36, pkg/kubelet/events and
// kubelet_node_status.go).
func (s *Simulator) started(node string) {
	// a kubelet does not know its Node's UID yet
	about := &corev1.ObjectReference{Kind: "Node", Name: node, UID: types.UID(node)}
	s.event(node, about, corev1.EventTypeNormal, "Starting", "Starting kubelet.")
	s.event(node, about, corev1.EventTypeNormal, "NodeAllocatableEnforced", "Updated Node Allocatable limit across pods")
	for _, reason := range []string{"NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID",
		"NodeReady"} {
		s.event(node, about, corev1.EventTypeNormal, reason, "Node %s status is now: %s", node, reason)
	}
}
