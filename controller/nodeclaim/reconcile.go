package nodeclaim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// reconciliation is one pass over a claim. Steps change the claim's status and its Node; the status is written at the
// end.
type reconciliation struct {
	claim *karpv1.NodeClaim
	node  *corev1.Node     // nil while there is none
	pool  *karpv1.NodePool // shared, not to be modified; nil if there is none
	after time.Duration    // delay until the next pass; 0 = an event triggers it
}

// requeueAfter requests another pass in d at the latest.
func (r *reconciliation) requeueAfter(d time.Duration) {
	if d > 0 && (r.after == 0 || d < r.after) {
		r.after = d
	}
}

// step does one thing for a claim, and reports whether the next step may follow.
type step func(context.Context, *reconciliation) (goOn bool, err error)

// reconcile advances one claim.
func (c *Controller) reconcile(ctx context.Context, name string) (time.Duration, error) {
	claim, err := c.readClaim(ctx, name)
	if claim == nil || !c.cluster.Manages(claim.Spec.NodeClassRef) {
		return 0, err
	}
	if claim.DeletionTimestamp != nil {
		return c.terminator.finalize(ctx, claim)
	}
	if c.deletedJustNow(claim) {
		return deletionShown, nil
	}
	pool, err := c.poolOf(ctx, claim)
	if err != nil {
		return 0, err
	}
	r := &reconciliation{claim: claim, pool: pool}
	before := claim.DeepCopy()
	for _, do := range []step{
		c.orphaned, c.expire, c.replacements.step, c.launcher.step, c.drift.step, c.registrar.register, c.repairer.step,
		c.registrar.initialize, c.compare, c.noteIdle,
	} {
		var goOn bool
		if goOn, err = do(ctx, r); !goOn || err != nil {
			break
		}
	}
	if claim.DeletionTimestamp == nil {
		err = errors.Join(err, c.writeStatus(ctx, before, claim))
	}
	return r.after, err
}

// poolOf returns the NodePool of a claim, or nil if there is none. It must not be modified.
//
// It is read from the cache: the cluster state may observe a change later than poolChanged does.
func (c *Controller) poolOf(ctx context.Context, claim *karpv1.NodeClaim) (*karpv1.NodePool, error) {
	name := claim.Labels[karpv1.NodePoolLabelKey]
	if name == "" {
		return nil, nil
	}
	pool := &karpv1.NodePool{}
	err := c.cache.Get(ctx, client.ObjectKey{Name: name}, pool, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read NodePool of NodeClaim %s: %w", claim.Name, err)
	}
	return pool, nil
}

// orphaned deletes a claim whose NodePool is gone, or is being deleted together with its dependents. The garbage
// collector of kube-controller-manager would do the same, later.
func (c *Controller) orphaned(ctx context.Context, r *reconciliation) (bool, error) {
	owner := slices.IndexFunc(r.claim.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "NodePool" })
	if owner < 0 {
		return true, nil
	}
	ref := r.claim.OwnerReferences[owner]
	if r.pool != nil && keepsDependents(r.pool, ref) {
		return true, nil
	}
	pool := &karpv1.NodePool{} // the cache may be late: check with the API server before deleting for good
	err := c.client.Get(ctx, client.ObjectKey{Name: ref.Name}, pool)
	switch {
	case err == nil && keepsDependents(pool, ref):
		return true, nil
	case err != nil && !apierrors.IsNotFound(err):
		return false, fmt.Errorf("look for NodePool %s of NodeClaim %s: %w", ref.Name, r.claim.Name, err)
	}
	return false, c.deleteClaim(ctx, r.claim, "nodepool_deleted")
}

// keepsDependents reports whether a pool is the referenced owner and keeps its dependents. With --cascade=orphan, the
// references are removed before the pool.
func keepsDependents(pool *karpv1.NodePool, ref metav1.OwnerReference) bool {
	return pool.UID == ref.UID &&
		(pool.DeletionTimestamp == nil || !slices.Contains(pool.Finalizers, metav1.FinalizerDeleteDependents))
}

// expire deletes a claim that is older than spec.expireAfter: immediately, without a budget and without a replacement
// (sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/expiration).
func (c *Controller) expire(ctx context.Context, r *reconciliation) (bool, error) {
	if r.claim.Spec.ExpireAfter.Duration == nil {
		return true, nil
	}
	age := *r.claim.Spec.ExpireAfter.Duration
	if left := c.until(r.claim.CreationTimestamp.Time, age); left > 0 {
		r.requeueAfter(left)
		return true, nil
	}
	if err := c.deleteClaim(ctx, r.claim, "expired"); err != nil {
		return false, err
	}
	c.event(r.claim, c.cluster.Node(r.claim.Status.NodeName), corev1.EventTypeNormal, "Expired",
		fmt.Sprintf("NodeClaim is older than spec.expireAfter (%s) and is deleted", age))
	return false, nil
}

// How often a Node is compared with what its launch promised, and what fraction of that is enough
// (sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/consistency).
const (
	compareInterval = 10 * time.Minute
	enough          = 0.9
)

// compare maintains the condition ConsistentStateFound.
func (c *Controller) compare(_ context.Context, r *reconciliation) (bool, error) {
	last := c.state.claims.get(r.claim.UID).comparedAt
	if left := c.until(last, compareInterval); !last.IsZero() && left > 0 {
		r.requeueAfter(left)
		return true, nil
	}
	r.requeueAfter(compareInterval)
	missing := shortfalls(r.node, r.claim)
	for _, m := range missing {
		c.recorder.Event(r.claim, corev1.EventTypeWarning, "FailedConsistencyCheck", m)
	}
	if found := r.claim.StatusConditions(); len(missing) == 0 {
		found.SetTrue(karpv1.ConditionTypeConsistentStateFound)
	} else {
		found.SetFalse(karpv1.ConditionTypeConsistentStateFound, "ConsistencyCheckFailed", missing[0])
	}
	c.state.claims.update(r.claim.UID, func(s *claimState) { s.comparedAt = c.now() })
	return true, nil
}

// shortfalls describes the requested resources of which a Node has much less than its launch promised.
func shortfalls(node *corev1.Node, claim *karpv1.NodeClaim) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(claim.Spec.Resources.Requests)) {
		requested, promised := claim.Spec.Resources.Requests[name], claim.Status.Capacity[name]
		if requested.IsZero() || promised.IsZero() {
			continue
		}
		has := node.Status.Capacity[name]
		if part := has.AsApproximateFloat64() / promised.AsApproximateFloat64(); part < enough {
			out = append(out, fmt.Sprintf("expected %s of resource %s, but found %s (%.1f%% of expected)",
				promised.String(), name, has.String(), part*100))
		}
	}
	return out
}

// podEventPause is the minimum time between two recorded pod events
// (sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/podevents).
const podEventPause = 10 * time.Second

// noteIdle maintains lastPodEventTime and the condition Consolidatable. Nodes of a static pool are never
// Consolidatable.
func (c *Controller) noteIdle(_ context.Context, r *reconciliation) (bool, error) {
	event := c.state.nodes.get(r.node.Name).podEvent
	if event.Sub(r.claim.Status.LastPodEventTime.Time) >= podEventPause && !event.IsZero() {
		r.claim.Status.LastPodEventTime = metav1.NewTime(event.Truncate(time.Second))
	}
	found := r.claim.StatusConditions()
	if r.pool == nil || r.pool.Spec.Replicas != nil || r.pool.Spec.Disruption.ConsolidateAfter.Duration == nil {
		return true, found.Clear(karpv1.ConditionTypeConsolidatable)
	}
	since := found.Get(karpv1.ConditionTypeInitialized).LastTransitionTime.Time
	if last := r.claim.Status.LastPodEventTime.Time; last.After(since) {
		since = last
	}
	if left := c.until(since, *r.pool.Spec.Disruption.ConsolidateAfter.Duration); left > 0 {
		r.requeueAfter(left)
		return true, found.Clear(karpv1.ConditionTypeConsolidatable)
	}
	found.SetTrue(karpv1.ConditionTypeConsolidatable)
	return true, nil
}
