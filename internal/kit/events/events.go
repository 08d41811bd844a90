// Package events names what this program needs of a recorder of Kubernetes events.
package events

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// Recorder records Kubernetes events. It does not block and is safe for concurrent use; client-go's
// record.EventRecorder is one.
type Recorder interface {
	Event(object runtime.Object, eventtype, reason, message string)
}

// maxMessage is how many bytes the message of an event may have (k8s.io/kubernetes v1.36, NoteLengthLimit).
const maxMessage = 1024

// Message returns as much of text as the message of an event may hold.
func Message(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxMessage)], "")
}
