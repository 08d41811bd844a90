package whatif

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The order is that of the ReplicaSet controller: see pkg/controller/controller_utils.go of Kubernetes.
func TestWhoGoesFirst(t *testing.T) {
	now := time.Date(2026, 6, 3, 12, 0, 0, 0, time.UTC)
	pod := func(name, node string, age time.Duration, ready bool, cost string) *corev1.Pod {
		born := metav1.NewTime(now.Add(-age))
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: born},
			Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
		}
		if node == "" {
			p.Status.Phase = corev1.PodPending
		}
		if cost != "" {
			p.Annotations = map[string]string{corev1.PodDeletionCost: cost}
		}
		if ready {
			p.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodReady, Status: corev1.ConditionTrue,
				LastTransitionTime: born,
			}}
		}
		return p
	}
	pods := []*corev1.Pod{
		pod("old", "a", time.Hour, true, ""),
		pod("about as old, lower UID", "b", 61*time.Minute, true, ""),
		pod("young", "c", time.Minute, true, ""),
		pod("together 1", "d", time.Hour, true, ""), pod("together 2", "d", 65*time.Minute, true, ""),
		pod("cheap", "e", 9*time.Hour, true, "-5"), pod("dear", "f", time.Second, true, "7"),
		pod("not a number", "g", 10*time.Second, true, "x"),
		pod("not ready", "h", 9*time.Hour, false, "9"), pod("waits", "", 9*time.Hour, false, "9"),
	}
	sortByDeletionOrder(now, pods)
	var got []string
	for _, p := range pods {
		got = append(got, p.Name)
	}
	want := []string{
		"waits", "not ready", "cheap", "together 1", "together 2", "not a number", "young",
		"about as old, lower UID", "old", "dear",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
