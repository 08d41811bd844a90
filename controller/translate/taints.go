package translate

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/engine/model"
)

// Taints translates taints, sorted by key, value and effect, without duplicates.
func Taints(taints []corev1.Taint) []model.Taint {
	if len(taints) == 0 {
		return nil
	}
	out := make([]model.Taint, len(taints))
	for i, t := range taints {
		out[i] = model.Taint{Key: t.Key, Value: t.Value, Effect: model.Effect(t.Effect)}
	}
	slices.SortFunc(out, func(a, b model.Taint) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Effect, b.Effect))
	})
	return slices.Compact(out)
}

// Tolerations translates tolerations, sorted, without duplicates. It leaves out those with an operator other than
// Exists and Equal: it is safe to assume that a pod does not tolerate a taint.
func Tolerations(ts []corev1.Toleration) []model.Toleration {
	if len(ts) == 0 {
		return nil
	}
	out := make([]model.Toleration, 0, len(ts))
	for _, t := range ts {
		m := model.Toleration{Key: t.Key, Value: t.Value, Effect: model.Effect(t.Effect)}
		switch t.Operator {
		case corev1.TolerationOpExists:
			m.Exists, m.Value = true, ""
		case corev1.TolerationOpEqual, "":
		default:
			continue
		}
		out = append(out, m)
	}
	slices.SortFunc(out, compareTolerations)
	return slices.Compact(out)
}

func compareTolerations(a, b model.Toleration) int {
	exists := func(t model.Toleration) int {
		if t.Exists {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value), cmp.Compare(exists(a), exists(b)),
		cmp.Compare(a.Effect, b.Effect))
}

// IsEphemeral reports whether a taint is one that every Node has while it starts and that other components remove
// (sigs.k8s.io/karpenter/pkg/scheduling/taints.go).
func IsEphemeral(key string) bool {
	switch key {
	case corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, "node.cloudprovider.kubernetes.io/uninitialized",
		karpv1.UnregisteredTaintKey:
		return true
	}
	return strings.HasPrefix(key, "readiness.k8s.io/")
}

// schedulingTaints returns the taints of a node that count for pods. Until it is initialized, startup taints and
// ephemeral taints do not count.
func schedulingTaints(taints, startup []corev1.Taint, initialized bool) []model.Taint {
	if initialized {
		return Taints(taints)
	}
	lasting := make([]corev1.Taint, 0, len(taints))
	for _, t := range taints {
		starts := slices.ContainsFunc(startup, func(s corev1.Taint) bool { return s.Key == t.Key && s.Effect == t.Effect })
		if !starts && !IsEphemeral(t.Key) {
			lasting = append(lasting, t)
		}
	}
	return Taints(lasting)
}
