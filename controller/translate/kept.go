package translate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// AnnotationKept is on a Node that lifecycle has cordoned until it is initialized and the pods which were promised it
// are nominated. DaemonSets' pods come to it all the same.
const AnnotationKept = "nodeless.sh/kept-for-its-pods"

// Kept reports whether the Node is cordoned for that and for nothing else.
func Kept(node *corev1.Node) bool { return node.Annotations[AnnotationKept] == "true" }

// Keep cordons a Node for the pods that were promised it, unless it is cordoned already.
func Keep(node *corev1.Node) {
	if node.Spec.Unschedulable {
		return
	}
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	node.Spec.Unschedulable, node.Annotations[AnnotationKept] = true, "true"
}

// Tainted reports whether kube-controller-manager has put the taint of a cordoned Node on it.
func Tainted(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, ofCordon)
}

func ofCordon(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnschedulable }

// withoutCordon are the Node's taints but that of a cordoned one.
func withoutCordon(node *corev1.Node) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(node.Spec.Taints), ofCordon)
}

// Open ends that. The taint is taken off too: kube-controller-manager would do so a moment later.
func Open(node *corev1.Node) {
	if !Kept(node) {
		return
	}
	node.Spec.Unschedulable = false
	delete(node.Annotations, AnnotationKept)
	node.Spec.Taints = withoutCordon(node)
}
