package whatif

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// firstToGo orders the pods of a Deployment by who goes first when there are to be fewer, as the ReplicaSet
// controller does (pkg/controller ActivePodsWithRanks of Kubernetes 1.36): who waits, is not ready, has the lowest
// deletion cost, shares a node with most others, was ready for the shortest time, in powers of two, and then who has
// the lower UID. How often containers were restarted is not looked at.
func firstToGo(now time.Time, pods []*corev1.Pod) {
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

// compareFlags has false before true.
func compareFlags(x, y bool) int {
	switch {
	case x == y:
		return 0
	case y:
		return -1
	}
	return 1
}

// youngerFirst compares ages in powers of two; of about equal ones the UIDs decide, of equal ones nothing.
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
	n, _ := strconv.ParseInt(pod.Annotations[corev1.PodDeletionCost], 10, 32) // what cannot be read counts as 0 there too
	return n
}

// readySince is when the pod became ready, zero if it is not.
func readySince(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
