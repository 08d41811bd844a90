package translate

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Cluster Autoscaler's annotations protect pods and Nodes as Karpenter's does, which takes precedence where both are
// set.
func TestAnnotationsOfClusterAutoscalerHold(t *testing.T) {
	const karpenters = "karpenter.sh/do-not-disrupt"
	start := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	for _, c := range []struct {
		annotations map[string]string
		until       time.Time
		by          string
	}{
		{nil, time.Time{}, ""},
		{map[string]string{AnnotationSafeToEvict: "false"}, Forever, AnnotationSafeToEvict},
		{map[string]string{AnnotationSafeToEvict: "true"}, time.Time{}, ""},
		{map[string]string{AnnotationSafeToEvict: "false", karpenters: "1h"}, start.Add(time.Hour), karpenters},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: c.annotations}, Status: corev1.PodStatus{StartTime: &start}}
		if got, by := ReadPod(pod).HeldUntil, HeldBy(pod); !got.Equal(c.until) || by != c.by {
			t.Errorf("%v: held until %s by %q", c.annotations, got, by)
		}
	}
	for value, held := range map[string]bool{"true": true, "false": false} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationScaleDownDisabled: value}}}
		if got := NodeHeldBy(node) != ""; got != held {
			t.Errorf("scale-down-disabled %s: held %v", value, got)
		}
	}
}
