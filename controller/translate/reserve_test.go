package translate

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

func TestANodeIsKeptForItsPodsAndOpened(t *testing.T) {
	n := NewNames()
	node := &corev1.Node{}
	node.Name = "n"
	Reserve(node)
	node.Spec.Taints = []corev1.Taint{
		{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule},
		{Key: "team", Effect: corev1.TaintEffectNoSchedule},
	}
	if m := n.Node(node, &karpv1.NodeClaim{}); !Reserved(node) || !HasCordonTaint(node) || m.Cordoned ||
		len(m.Taints) != 1 {
		t.Errorf("a kept Node is one on which pods are planned: %+v", m)
	}
	if Unreserve(node); Reserved(node) || node.Spec.Unschedulable || HasCordonTaint(node) || len(node.Spec.Taints) != 1 {
		t.Errorf("opened it is %+v, %v", node.Spec, node.Annotations)
	}

	by := &corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true}}
	Reserve(by)
	if Unreserve(by); !by.Spec.Unschedulable || !n.Node(by, &karpv1.NodeClaim{}).Cordoned {
		t.Error("what somebody else cordoned stays cordoned")
	}
}
