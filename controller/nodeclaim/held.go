package nodeclaim

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
)

// tellHeld says, once for each state, what becomes of the do-not-disrupt of a pod whose machine is drained: nothing needs
// to be said of "true" (karpenter.md §7.1).
func (l *Lifecycle) tellHeld(pod *corev1.Pod) {
	value := pod.Annotations[karpv1.DoNotDisruptAnnotationKey]
	if value == "" || value == "true" || pod.DeletionTimestamp != nil {
		return
	}
	kind, reason, message := heldState(pod, value, l.now())
	l.mu.Lock()
	a := l.evictions[pod.UID]
	news := a.told != reason && reason != ""
	a.told = reason
	if news {
		l.evictions[pod.UID] = a
	}
	l.mu.Unlock()
	if news {
		l.o.Recorder.Event(pod, kind, reason, message)
	}
}

// heldState is what there is to say of a do-not-disrupt that is not "true"; nothing while the pod's start is not known.
func heldState(pod *corev1.Pod, value string, now time.Time) (kind, reason, message string) {
	until := translate.ReadPod(pod).HeldUntil
	d, err := time.ParseDuration(value)
	switch {
	case err != nil:
		return corev1.EventTypeWarning, "InvalidDoNotDisruptAnnotation",
			fmt.Sprintf("Invalid %s annotation: %q is neither \"true\" nor a duration such as 30m, ignoring annotation", karpv1.DoNotDisruptAnnotationKey, value)
	case d <= 0:
		return corev1.EventTypeWarning, "InvalidDoNotDisruptAnnotation",
			fmt.Sprintf("Invalid %s annotation: duration %q must be positive, ignoring annotation", karpv1.DoNotDisruptAnnotationKey, value)
	case pod.Status.StartTime == nil:
		return "", "", ""
	case now.Before(until):
		return corev1.EventTypeNormal, "DoNotDisruptUntil",
			fmt.Sprintf("The %s grace period will elapse at %s", karpv1.DoNotDisruptAnnotationKey, until.Format(time.RFC3339))
	}
	return corev1.EventTypeNormal, "DoNotDisruptGracePeriodElapsed",
		fmt.Sprintf("The %s grace period has elapsed, pod is now disruptable", karpv1.DoNotDisruptAnnotationKey)
}
