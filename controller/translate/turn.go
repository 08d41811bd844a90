package translate

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/engine/fill"
)

// filledLater begins the keys of the taints PreferNoSchedule by which kube-scheduler fills a Node after others: as many as its turn
// (fill.Order), since kube-scheduler counts them.
const filledLater = "nodeless.sh/filled-later-"

func ofTurn(t corev1.Taint) bool {
	return t.Effect == corev1.TaintEffectPreferNoSchedule && strings.HasPrefix(t.Key, filledLater)
}

// Turn is when kube-scheduler fills the Node, 0 if among the first.
func Turn(node *corev1.Node) (turn int) {
	for _, t := range node.Spec.Taints {
		if ofTurn(t) {
			turn++
		}
	}
	return turn
}

// SetTurn changes that.
func SetTurn(node *corev1.Node, turn int) {
	node.Spec.Taints = withoutTurn(node.Spec.Taints)
	for i := range min(turn, fill.Last) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: filledLater + strconv.Itoa(i+1), Effect: corev1.TaintEffectPreferNoSchedule})
	}
}

// withoutTurn are the taints that are somebody's wish: a Node's turn is none, and no plan heeds it.
func withoutTurn(taints []corev1.Taint) []corev1.Taint {
	if !slices.ContainsFunc(taints, ofTurn) {
		return taints
	}
	return slices.DeleteFunc(slices.Clone(taints), ofTurn)
}
