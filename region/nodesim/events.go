package nodesim

import (
	"context"
	"crypto/sha256"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/nodeless/nodeless/api/vpcresources/v1beta1"
)

// event records an event of a node's kubelet about an object.
func (s *Simulator) event(node string, about runtime.Object, eventType, reason, format string, args ...any) {
	s.events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: node}).Eventf(about, eventType,
		reason, format, args...)
}

// The events of pods that get no address on EKS: the kubelet's reason and message (Kubernetes 1.36,
// pkg/kubelet/events and pkg/kubelet/kuberuntime/kuberuntime_manager.go) around those of containerd and the VPC CNI
// (amazon-vpc-cni-k8s 1.23: routed-eni-cni-plugin/cni.go).
const (
	reasonNoSandbox  = "FailedCreatePodSandBox"
	messageNoAddress = "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for " +
		"sandbox %q: " +
		`plugin type="aws-cni" name="aws-cni" failed (add): add cmd: failed to assign an IP address to container`
	messageNoCNI = "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for " +
		"sandbox %q: " +
		`plugin type="aws-cni" name="aws-cni" failed (add): add cmd: Error received from AddNetwork gRPC call: ` +
		`rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: ` +
		`dial tcp 127.0.0.1:50051: connect: connection refused"`
	// Takes a namespace and a name. On Windows, for a pod without a requested address (amazon-vpc-cni-plugins,
	// vpc-bridge).
	messageNoRequest = "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for " +
		"sandbox %%q: " +
		`plugin type="vpc-bridge" name="vpc" failed (add): failed to parse Kubernetes args: pod %s/%s does not have label ` +
		v1beta1.PrivateIPv4Address
)

// sandboxOf returns the ID of a pod's sandbox, formatted like containerd's. A real ID changes with each attempt; this
// one does not, so that one event counts the attempts.
func sandboxOf(pod *corev1.Pod) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(pod.UID)))
}

const (
	reasonNodeReady = "NodeReady"
	messageStatus   = "Node %s status is now: %s" // takes a node and a reason
)

// recordStart records the events of a starting kubelet about its node (Kubernetes 1.36, pkg/kubelet/events and
// kubelet_node_status.go).
func (s *Simulator) recordStart(node string, ready bool) {
	// a kubelet does not know its Node's UID yet
	about := nodeReference(node)
	s.event(node, about, corev1.EventTypeNormal, "Starting", "Starting kubelet.")
	s.event(node, about, corev1.EventTypeNormal, "NodeAllocatableEnforced", "Updated Node Allocatable limit across pods")
	reasons := []string{"NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID"}
	if ready {
		reasons = append(reasons, reasonNodeReady)
	}
	for _, reason := range reasons {
		s.event(node, about, corev1.EventTypeNormal, reason, messageStatus, node, reason)
	}
}

// reportOnClaim records on an instance's NodeClaim why the instance joins no cluster. On AWS, only the instance's
// console output would tell.
func (s *Simulator) reportOnClaim(ctx context.Context, m *Instance, cause error) error {
	if m.Claim == "" {
		return nil
	}
	var claim metav1.PartialObjectMetadata
	err := readAs(ctx, s.client, "/apis/karpenter.sh/v1/nodeclaims/"+m.Claim, &claim)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("record on NodeClaim %s that its instance cannot join the cluster: %w", m.Claim, err)
	}
	about := &corev1.ObjectReference{APIVersion: claim.APIVersion, Kind: claim.Kind, Name: claim.Name, UID: claim.UID}
	s.events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "simulated-instance", Host: m.Name}).
		Eventf(about, corev1.EventTypeWarning, "NodeNotJoining", "Instance %s has booted but cannot join the cluster: %v",
			m.ID, cause)
	return nil
}
