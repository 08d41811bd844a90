package nodesim

import (
	"context"
	"crypto/sha256"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// events are the nodes' kubelets' until ctx is done.
func events(ctx context.Context, client kubernetes.Interface) record.EventBroadcaster {
	b := record.NewBroadcaster(record.WithContext(ctx))
	b.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return b
}

// event records what the kubelet of a node says about an object.
func (s *Simulator) event(node string, about runtime.Object, eventType, reason, format string, args ...any) {
	s.events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: node}).Eventf(about, eventType,
		reason, format, args...)
}

// The event of a pod that gets no address, as EKS has it: the kubelet's reason and words (Kubernetes 1.36,
// pkg/kubelet/events and pkg/kubelet/kuberuntime/kuberuntime_manager.go) around containerd's and those of the VPC CNI
// (amazon-vpc-cni-k8s 1.23: routed-eni-cni-plugin/cni.go).
const (
	reasonNoSandbox  = "FailedCreatePodSandBox"
	messageNoAddress = "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox %q: " +
		`plugin type="aws-cni" name="aws-cni" failed (add): add cmd: failed to assign an IP address to container`
)

// sandboxOf is the ID of a pod's sandbox, of the same form as containerd's. A real one is new with each try; this one
// stays, so that tries are counted in one event.
func sandboxOf(pod *corev1.Pod) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(pod.UID)))
}
