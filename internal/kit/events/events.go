// Package events records Kubernetes events.
package events

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// Broadcast returns a broadcaster whose recorders write events to the API server until ctx is done.
func Broadcast(ctx context.Context, kube kubernetes.Interface) record.EventBroadcaster {
	b := record.NewBroadcaster(record.WithContext(ctx))
	b.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: kube.CoreV1().Events("")})
	return b
}

// Recorder records Kubernetes events. It does not block and is safe for concurrent use. client-go's
// record.EventRecorder implements it.
type Recorder interface {
	Event(object runtime.Object, eventtype, reason, message string)
}

// MaxMessage is the maximum size of an event's message in bytes (k8s.io/kubernetes v1.36, NoteLengthLimit).
const MaxMessage = 1024

// Message shortens text to fit into an event. If text is a list with semicolons, it leaves out parts before the last
// one, which says what would help.
func Message(text string) string {
	if len(text) <= MaxMessage {
		return text
	}
	const gap = "; …"
	last := ""
	if i := strings.LastIndex(text, "; "); i >= 0 && len(text)-i <= MaxMessage/2 {
		last = text[i:]
	}
	head := text[:MaxMessage-len(gap)-len(last)]
	if i := strings.LastIndex(head, "; "); i > len(head)/2 {
		head = head[:i]
	}
	return strings.ToValidUTF8(head, "") + gap + last
}
