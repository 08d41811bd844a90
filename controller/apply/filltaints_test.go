package apply

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Taints with which an earlier version had nodes filled later are taken away; others stay.
func TestFillTaintsOfEarlierVersionsAreRemoved(t *testing.T) {
	r := enter(t, "100")
	name := "node-" + r.occupied("a")
	ctx := context.Background()
	node := &corev1.Node{}
	get := func() {
		t.Helper()
		if err := r.client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			t.Fatal(err)
		}
	}
	get()
	theirs := len(node.Spec.Taints) + 1
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "team", Effect: corev1.TaintEffectPreferNoSchedule},
		corev1.Taint{Key: fillTaint + "1", Effect: corev1.TaintEffectPreferNoSchedule},
		corev1.Taint{Key: fillTaint + "2", Effect: corev1.TaintEffectPreferNoSchedule})
	if err := r.client.Update(ctx, node); err != nil {
		t.Fatal(err)
	}
	r.until("the taints are known",
		func() bool { n := r.state.Node(name); return n != nil && len(n.Spec.Taints) == theirs+2 })
	if !r.applier.RemoveFillTaints(ctx, r.snapshot()) {
		t.Error("some are left")
	}
	if get(); len(node.Spec.Taints) != theirs {
		t.Errorf("taints are %v", node.Spec.Taints)
	}
}
