package nodeclaim

import (
	"context"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// podEventPause is how long after a pod event the next is not written (karpenter.md §3.1).
const podEventPause = 10 * time.Second

// noteIdle keeps lastPodEventTime and the condition Consolidatable. Machines of a static pool are never Consolidatable.
func (l *Lifecycle) noteIdle(_ context.Context, t *turn) (bool, error) {
	l.mu.Lock()
	event := l.podEvents[t.node.Name]
	l.mu.Unlock()
	if event.Sub(t.claim.Status.LastPodEventTime.Time) >= podEventPause && !event.IsZero() {
		t.claim.Status.LastPodEventTime = metaTime(event.Truncate(time.Second))
	}
	conditions := t.claim.StatusConditions()
	if t.pool == nil || t.pool.Spec.Replicas != nil || t.pool.Spec.Disruption.ConsolidateAfter.Duration == nil {
		return true, conditions.Clear(karpv1.ConditionTypeConsolidatable)
	}
	since := conditions.Get(karpv1.ConditionTypeInitialized).LastTransitionTime.Time
	if last := t.claim.Status.LastPodEventTime.Time; last.After(since) {
		since = last
	}
	if left := since.Add(*t.pool.Spec.Disruption.ConsolidateAfter.Duration).Sub(l.now()); left > 0 {
		t.in(left)
		return true, conditions.Clear(karpv1.ConditionTypeConsolidatable)
	}
	conditions.SetTrue(karpv1.ConditionTypeConsolidatable)
	return true, nil
}
