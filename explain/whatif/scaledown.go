package whatif

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// sortByDeletionOrder sorts the pods of a Deployment in the order in which the ReplicaSet controller deletes them on
// scale-down (ActivePodsWithRanks in pkg/controller of Kubernetes 1.36): pods that are unscheduled, not running or
// not ready, then by deletion cost, by the number of pods on their node, by the time since they became ready, in
// powers of two, and by UID. Container restarts are not considered.
func sortByDeletionOrder(now time.Time, pods []*corev1.Pod) {
	on := map[string]int{}
	for _, pod := range pods {
		on[pod.Spec.NodeName]++
	}
	slices.SortStableFunc(pods, func(x, y *corev1.Pod) int {
		return cmp.Or(
			compareFlags(x.Spec.NodeName != "", y.Spec.NodeName != ""),
			compareFlags(x.Status.Phase == corev1.PodRunning, y.Status.Phase == corev1.PodRunning),
			compareFlags(ready(x), ready(y)),
			cmp.Compare(deletionCost(x), deletionCost(y)),
			cmp.Compare(on[y.Spec.NodeName], on[x.Spec.NodeName]),
			youngerFirst(now, readySince(x), readySince(y), x, y),
			youngerFirst(now, x.CreationTimestamp.Time, y.CreationTimestamp.Time, x, y),
		)
	})
}

// compareFlags sorts false before true.
func compareFlags(x, y bool) int {
	switch {
	case x == y:
		return 0
	case y:
		return -1
	}
	return 1
}

// youngerFirst compares ages in powers of two; if they are about equal, the UIDs decide.
func youngerFirst(now, s, t time.Time, x, y *corev1.Pod) int {
	if s.Equal(t) {
		return 0
	}
	power := func(t time.Time) int64 {
		if age := now.Sub(t); age > 0 {
			return int64(math.Log2(float64(age)))
		}
		return -1
	}
	return cmp.Or(cmp.Compare(power(s), power(t)), cmp.Compare(x.UID, y.UID))
}

func deletionCost(pod *corev1.Pod) int64 {
	n, _ := strconv.ParseInt(pod.Annotations[corev1.PodDeletionCost], 10, 32) // an invalid value counts as 0 there, too
	return n
}

// readySince returns when the pod became ready, zero if it is not ready.
func readySince(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
