package translate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AnnotationReserved marks a Node that is cordoned until it is initialized and the pods with a place on it are
// nominated. Pods of DaemonSets run on it anyway.
const AnnotationReserved = "nodeless.sh/kept-for-its-pods"

// Reserved reports whether the Node is cordoned only for that reason.
func Reserved(node *corev1.Node) bool { return node.Annotations[AnnotationReserved] == "true" }

// Reserve cordons a Node for the pods with a place on it, unless it is cordoned already.
func Reserve(node *corev1.Node) {
	if node.Spec.Unschedulable {
		return
	}
	node.Spec.Unschedulable = true
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, AnnotationReserved, "true")
}

// HasCordonTaint reports whether kube-controller-manager has added the taint of a cordoned Node.
func HasCordonTaint(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, isCordonTaint)
}

func isCordonTaint(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnschedulable }

// withoutCordon returns the Node's taints without the taint of a cordoned Node.
func withoutCordon(node *corev1.Node) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(node.Spec.Taints), isCordonTaint)
}

// Unreserve uncordons a reserved Node. It also removes the taint, as kube-controller-manager would a moment later.
func Unreserve(node *corev1.Node) {
	if !Reserved(node) {
		return
	}
	node.Spec.Unschedulable = false
	delete(node.Annotations, AnnotationReserved)
	node.Spec.Taints = withoutCordon(node)
}
