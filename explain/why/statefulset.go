package why

import (
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// replacing returns what else to do, after the template of a StatefulSet was changed, for a pending pod to be made from
// it: which pod to delete, "" if the StatefulSet replaces it by itself; and all of it as a sentence. lower means that
// deleting the pod does not suffice: spec.updateStrategy.rollingUpdate.partition must be lowered first.
// (Kubernetes documentation, "StatefulSets": On delete, Forced rollback, Partitioned rolling updates, Parallel pod
// management.)
func replacing(set *appsv1.StatefulSet, pod *corev1.Pod) (remove string, lower bool, how string) {
	update, partition, start := set.Spec.UpdateStrategy, 0, 0
	onDelete := update.Type == appsv1.OnDeleteStatefulSetStrategyType
	if !onDelete && update.RollingUpdate != nil && update.RollingUpdate.Partition != nil {
		partition = int(*update.RollingUpdate.Partition)
	}
	if set.Spec.Ordinals != nil {
		start = int(set.Spec.Ordinals.Start)
	}
	// The partition counts from the first ordinal (k8s.io/kubernetes/pkg/controller/statefulset, isCurrentRevisionNeeded).
	ordinal, err := strconv.Atoi(strings.TrimPrefix(pod.Name, set.Name+"-"))
	if index := ordinal - start; err == nil && index < partition {
		lower = true
		how = fmt.Sprintf("lower spec.updateStrategy.rollingUpdate.partition of StatefulSet %s from %d to at most %d too, "+
			"else the pod keeps the old template even if it is deleted", set.Name, partition, max(index, 0))
	}
	var why string
	switch {
	case onDelete:
		why = "updateStrategy OnDelete replaces no pod by itself"
	case set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement:
		why = "podManagementPolicy OrderedReady replaces no pod while one is not ready"
	default:
		return "", lower, how
	}
	if how != "" {
		how += "; "
	}
	return pod.Name, lower, how + fmt.Sprintf("then delete pod %s: %s", pod.Name, why)
}
