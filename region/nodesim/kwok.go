package nodesim

import (
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Words that tests for KWOK put on objects, with the meaning they have there (kwok v0.8, kustomize/stage, and the
// stages of Karpenter's hack/kwok).
const (
	// annotationDelay is how long a pod's processes take to end, as a Go duration, whatever the grace period.
	annotationDelay = "pod-delete.stage.kwok.x-k8s.io/delay"
	// labelStage with the value unhealthy makes a pod whose state is never known.
	labelStage, unhealthy = "kwok.x-k8s.io/stage", "unhealthy"
	// annotationNode with the value fake makes a Node that somebody else created one to be played.
	annotationNode, fake = "kwok.x-k8s.io/node", "fake"
)

// stopDelay is how long a pod's processes take to end because its annotation says so.
func stopDelay(pod *corev1.Pod) time.Duration {
	d, err := time.ParseDuration(pod.Annotations[annotationDelay])
	if err != nil {
		return 0
	}
	return max(d, 0)
}

func isUnhealthy(pod *corev1.Pod) bool { return pod.Labels[labelStage] == unhealthy }

// unhealthyStatus is the status of a pod that was bound and whose state is not known.
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

// played is the Node behind a name as an instance, if somebody made it to be played; nil if not. Its pods have its
// address, since it has no subnet.
func (s *Simulator) played(name string) *Instance {
	node, err := s.nodes.Get(name)
	if err != nil || node.Annotations[annotationNode] != fake || node.DeletionTimestamp != nil {
		return nil
	}
	m := &Instance{Name: name, IP: netip.AddrFrom4([4]byte{192, 0, 2, 1}), played: true} // TEST-NET-1, RFC 5737
	for _, a := range node.Status.Addresses {
		if ip, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
			m.IP = ip
		}
	}
	return m
}

// play notes whether a node is played without an instance; the pods of one that is new have waited for it.
func (s *Simulator) play(name string, played bool) {
	s.mu.Lock()
	before := s.others[name]
	if played {
		s.others[name] = true
	} else {
		delete(s.others, name)
	}
	s.mu.Unlock()
	if played && !before {
		s.enqueuePods(name)
	}
}

// broken reports whether somebody wrote by hand that a node is not well. It stays so, where a kubelet would soon say
// otherwise: so a test, or somebody curious, plays an instance that broke. What the control plane writes when it has
// not heard of a node is put right.
func broken(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status != corev1.ConditionTrue && c.Reason != "NodeStatusUnknown" && c.Reason != "NodeStatusNeverUpdated"
		}
	}
	return false
}
