package lifecycle

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// podEventPause is how long after a pod event the next is not written (karpenter.md §3.1).
const podEventPause = 10 * time.Second

// noteIdle keeps lastPodEventTime and the condition Consolidatable.
func (l *Lifecycle) noteIdle(ctx context.Context, t *turn) (bool, error) {
	l.mu.Lock()
	event := l.podEvents[t.node.Name]
	l.mu.Unlock()
	if event.Sub(t.claim.Status.LastPodEventTime.Time) >= podEventPause && !event.IsZero() {
		t.claim.Status.LastPodEventTime = metaTime(event.Truncate(time.Second))
	}
	conditions := t.claim.StatusConditions()
	pool := &karpv1.NodePool{} // from the cache: the world may hear of a change later than sawPool
	err := l.o.Cache.Get(ctx, client.ObjectKey{Name: t.claim.Labels[karpv1.NodePoolLabelKey]}, pool)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read NodePool of NodeClaim %s: %w", t.claim.Name, err)
	}
	if err != nil || pool.Spec.Disruption.ConsolidateAfter.Duration == nil {
		return true, conditions.Clear(karpv1.ConditionTypeConsolidatable)
	}
	since := conditions.Get(karpv1.ConditionTypeInitialized).LastTransitionTime.Time
	if last := t.claim.Status.LastPodEventTime.Time; last.After(since) {
		since = last
	}
	if left := since.Add(*pool.Spec.Disruption.ConsolidateAfter.Duration).Sub(l.now()); left > 0 {
		t.in(left)
		return true, conditions.Clear(karpv1.ConditionTypeConsolidatable)
	}
	conditions.SetTrue(karpv1.ConditionTypeConsolidatable)
	return true, nil
}
