package cluster

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/internal/kit/conditions"
)

// nodeMatters reports whether an update of a Node is more than a heartbeat.
func nodeMatters(a, b *corev1.Node) bool {
	aReady, aOK := translate.ReadySince(a)
	bReady, bOK := translate.ReadySince(b)
	return a.UID != b.UID || aOK != bOK || !aReady.Equal(bReady) ||
		a.Spec.Unschedulable != b.Spec.Unschedulable || a.Spec.ProviderID != b.Spec.ProviderID ||
		!a.DeletionTimestamp.Equal(b.DeletionTimestamp) ||
		!slices.EqualFunc(a.Spec.Taints, b.Spec.Taints, func(x, y corev1.Taint) bool {
			return x.Key == y.Key && x.Value == y.Value && x.Effect == y.Effect
		}) ||
		!maps.Equal(a.Labels, b.Labels) ||
		translate.NodeHeldBy(a) != translate.NodeHeldBy(b) ||
		!sameResources(a.Status.Allocatable, b.Status.Allocatable) || !sameResources(a.Status.Capacity, b.Status.Capacity)
}

// claimMatters reports whether an update of a NodeClaim changes its node's record.
func claimMatters(a, b *karpv1.NodeClaim) bool {
	return a.UID != b.UID || a.Status.ProviderID != b.Status.ProviderID ||
		!a.DeletionTimestamp.Equal(b.DeletionTimestamp) || !a.Status.LastPodEventTime.Equal(&b.Status.LastPodEventTime) ||
		!maps.Equal(a.Labels, b.Labels) || !sameAnnotations(a.Annotations, b.Annotations) ||
		!sameResources(a.Status.Allocatable, b.Status.Allocatable) || !sameResources(a.Status.Capacity, b.Status.Capacity) ||
		slices.ContainsFunc([]string{
			karpv1.ConditionTypeInitialized, karpv1.ConditionTypeDrifted, karpv1.ConditionTypeInstanceTerminating,
		}, func(c string) bool { return conditionOf(a, c) != conditionOf(b, c) })
}

// sameAnnotations compares the annotations on which a node's record depends, all but the reason of its removal.
func sameAnnotations(a, b map[string]string) bool {
	if maps.Equal(a, b) {
		return true
	}
	a, b = maps.Clone(a), maps.Clone(b)
	delete(a, translate.AnnotationDisruption)
	delete(b, translate.AnnotationDisruption)
	return maps.Equal(a, b)
}

// conditionOf returns a condition's status and reason as one text.
func conditionOf(claim *karpv1.NodeClaim, name string) string {
	if c := conditions.Of(claim, name); c != nil {
		return string(c.Status) + " " + c.Reason
	}
	return ""
}

// poolMatters reports whether an update of a NodePool is more than its status.
func poolMatters(a, b *karpv1.NodePool) bool {
	return a.UID != b.UID || a.Generation != b.Generation || b.Generation == 0 ||
		!a.DeletionTimestamp.Equal(b.DeletionTimestamp) ||
		!translate.SameDisruptionAnnotations(a, b)
}

func sameResources(a, b corev1.ResourceList) bool {
	return len(a) == len(b) && maps.EqualFunc(a, b, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
}

func sameSlice[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func clusterKey(name string) types.NamespacedName { return types.NamespacedName{Name: name} }
