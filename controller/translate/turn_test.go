package translate

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/engine/model"
)

// A Node's turn is as many taints; other taints stay, and to plans there is no turn.
func TestANodesTurnIsNoTaintToPlans(t *testing.T) {
	theirs := corev1.Taint{Key: "team", Value: "a", Effect: corev1.TaintEffectPreferNoSchedule}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{theirs}}}
	for _, turn := range []int{2, 3, 1, 0} {
		SetTurn(node, turn)
		if got := Turn(node); got != turn || len(node.Spec.Taints) != 1+turn {
			t.Errorf("turn %d is %d: %v", turn, got, node.Spec.Taints)
		}
		if got := NewNames().Node(node, nil).Taints; len(got) != 1 || got[0] != (model.Taint{Key: "team", Value: "a", Effect: "PreferNoSchedule"}) {
			t.Errorf("turn %d: plans see %v", turn, got)
		}
	}
}
