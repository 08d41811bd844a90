package nodesim

import (
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/internal/kit/conditions"
)

// Labels and annotations of KWOK, with the same meaning as there (kwok v0.8, kustomize/stage, and the stages of
// Karpenter's hack/kwok).
const (
	// annotationDelay is how long a pod's processes take to end, as a Go duration, regardless of the grace period.
	annotationDelay = "pod-delete.stage.kwok.x-k8s.io/delay"
	// labelStage with the value unhealthy marks a pod whose state stays unknown.
	labelStage, unhealthy = "kwok.x-k8s.io/stage", "unhealthy"
	// annotationNode with the value fake marks a Node without an instance, which a user created.
	annotationNode, fake = "kwok.x-k8s.io/node", "fake"
)

// stopDelay returns how long a pod's processes take to end according to its annotation.
func stopDelay(pod *corev1.Pod) time.Duration {
	d, err := time.ParseDuration(pod.Annotations[annotationDelay])
	if err != nil {
		return 0
	}
	return max(d, 0)
}

func isUnhealthy(pod *corev1.Pod) bool { return pod.Labels[labelStage] == unhealthy }

// unhealthyStatus returns the status of a bound pod whose state is unknown.
func unhealthyStatus(running corev1.PodStatus, now metav1.Time) corev1.PodStatus {
	running.Phase = corev1.PodUnknown
	for i := range running.ContainerStatuses {
		running.ContainerStatuses[i].Ready = false
	}
	for _, t := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady} {
		running.Conditions = setCondition(running.Conditions, t, corev1.ConditionFalse, "Unhealthy", now)
	}
	return running
}

// fakeInstance returns an instance for a Node that a user created without one, or nil. Its pods have the Node's
// address, as it has no subnet.
func (s *Simulator) fakeInstance(name string) *Instance {
	node, err := s.nodes.Get(name)
	if err != nil || node.Annotations[annotationNode] != fake || node.DeletionTimestamp != nil {
		return nil
	}
	m := &Instance{Name: name, IP: netip.AddrFrom4([4]byte{192, 0, 2, 1}), fake: true} // TEST-NET-1, RFC 5737
	for _, a := range node.Status.Addresses {
		if ip, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
			m.IP = ip
		}
	}
	return m
}

// trackFake records whether a node is fake. It queues the pods of a new fake node, which have been waiting for it.
func (s *Simulator) trackFake(name string, played bool) {
	s.mu.Lock()
	before := s.fakes[name]
	if played {
		s.fakes[name] = true
	} else {
		delete(s.fakes, name)
	}
	s.mu.Unlock()
	if played && !before {
		s.enqueuePods(name, nil)
	}
}

// reportedUnhealthy reports whether a user set a node's Ready condition to something other than true. The simulator
// leaves it so, where a kubelet would soon correct it: tests and curious users can break an instance this way. It
// does correct what the control plane writes about a node that stopped reporting, and what the simulator itself
// wrote.
func reportedUnhealthy(node *corev1.Node) bool {
	c := conditions.OfNode(node, corev1.NodeReady)
	return c != nil && c.Status != corev1.ConditionTrue && c.Reason != "NodeStatusUnknown" &&
		c.Reason != "NodeStatusNeverUpdated" && c.Message != messageNotReady
}
