package nodeclaim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// How often a machine is compared with what its launch promised, and how much of it is enough (karpenter.md §3.1).
const (
	consistentEvery = 10 * time.Minute
	enough          = 0.9
)

// consistent keeps the condition ConsistentStateFound.
func (l *Lifecycle) consistent(_ context.Context, t *turn) (bool, error) {
	l.mu.Lock()
	last, checked := l.checked[t.claim.UID]
	l.mu.Unlock()
	if left := last.Add(consistentEvery).Sub(l.now()); checked && left > 0 {
		t.in(left)
		return true, nil
	}
	t.in(consistentEvery)
	conditions := t.claim.StatusConditions()
	missing := lacking(t.node, t.claim)
	for _, m := range missing {
		l.o.Recorder.Event(t.claim, corev1.EventTypeWarning, "FailedConsistencyCheck", m)
	}
	if len(missing) == 0 {
		conditions.SetTrue(karpv1.ConditionTypeConsistentStateFound)
	} else {
		conditions.SetFalse(karpv1.ConditionTypeConsistentStateFound, "ConsistencyCheckFailed", missing[0])
	}
	l.mu.Lock()
	l.checked[t.claim.UID] = l.now()
	l.mu.Unlock()
	return true, nil
}

// lacking says of which requested resources a Node has much less than its launch promised.
func lacking(node *corev1.Node, claim *karpv1.NodeClaim) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(claim.Spec.Resources.Requests)) {
		asked, promised, has := claim.Spec.Resources.Requests[name], claim.Status.Capacity[name], node.Status.Capacity[name]
		if asked.IsZero() || promised.IsZero() {
			continue
		}
		if part := has.AsApproximateFloat64() / promised.AsApproximateFloat64(); part < enough {
			out = append(out, fmt.Sprintf("expected %s of resource %s, but found %s (%.1f%% of expected)", promised.String(), name, has.String(), part*100))
		}
	}
	return out
}
