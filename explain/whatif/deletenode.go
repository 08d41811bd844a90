package whatif

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/reason"
)

// deleteNode deletes a Node and its instance at once, regardless of PodDisruptionBudgets. Owners recreate its pods,
// except those of DaemonSets.
func (a *changedObjects) deleteNode(name string) (string, error) {
	if a.find(&corev1.Node{}, client.ObjectKey{Name: name}) < 0 {
		return "", fmt.Errorf("--delete node/%s: %w", name,
			explainGet(apierrors.NewNotFound(schema.GroupResource{Resource: "node"}, name)))
	}
	again, lost := 0, 0
	kept := make([]client.Object, 0, len(a.objects))
	for _, o := range a.objects {
		switch o := o.(type) {
		case *corev1.Node:
			if o.Name == name {
				continue
			}
		case *karpv1.NodeClaim:
			if o.Status.NodeName == name {
				continue
			}
		case *corev1.Pod:
			if o.Spec.NodeName != name {
				break
			}
			switch next := a.successor(o); {
			case next != nil:
				kept = append(kept, next)
				again++
			case metav1.GetControllerOfNoCopy(o) == nil:
				lost++
			}
			continue
		}
		kept = append(kept, o)
	}
	a.objects = kept
	text := fmt.Sprintf("Node %s is deleted: %s created again", name, reason.Count(again, "pod"))
	if lost > 0 {
		text += fmt.Sprintf(", %s not, as nothing owns them", reason.Count(lost, "pod"))
	}
	return text, nil
}

// successor returns the pod that replaces one whose node is deleted, or nil if there is none.
func (a *changedObjects) successor(pod *corev1.Pod) *corev1.Pod {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || slices.Contains([]string{"DaemonSet", "Node"}, owner.Kind) ||
		pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	a.seq++
	next := &corev1.Pod{Spec: pod.Spec, Status: corev1.PodStatus{Phase: corev1.PodPending}, ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, GenerateName: pod.GenerateName, UID: uidOf(fmt.Sprintf("again-%d", a.seq)),
		CreationTimestamp: metav1.NewTime(a.in.Cluster.Snapshot().Now), Labels: pod.Labels, Annotations: pod.Annotations,
		OwnerReferences: pod.OwnerReferences,
	}}
	next.Spec.NodeName = ""
	return next
}
