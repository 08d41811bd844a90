package nodesim

import (
	"context"

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
	s.events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: node}).Eventf(about, eventType, reason, format, args...)
}
