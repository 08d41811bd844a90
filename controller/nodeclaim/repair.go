package nodeclaim

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
	"github.com/nodeless/nodeless/internal/kit/conditions"
)

// Node repair stops while more than maxUnhealthyPercent of a pool's Nodes are unhealthy, since then the cause lies
// elsewhere, and tries again after repairRetry (sigs.k8s.io/karpenter/pkg/controllers/node/health).
const (
	maxUnhealthyPercent = 20
	repairRetry         = 5 * time.Minute
)

// repairer deletes claims whose Nodes have been unhealthy for too long.
type repairer struct {
	*objects
	policies []cloud.RepairPolicy // none if node repair is off
}

func newRepairer(shared *objects, o Options) *repairer {
	r := &repairer{objects: shared}
	if source, ok := o.Cloud.(cloud.Repairer); ok && o.Gates.NodeRepair {
		r.policies = source.RepairPolicies()
	}
	return r
}

// changed reports whether a Node became unhealthy or recovered.
func (p *repairer) changed(old, now *corev1.Node) bool {
	was, wasDue := broken(old, p.policies)
	is, due := broken(now, p.policies)
	return is != was || !due.Equal(wasDue)
}

// step deletes a claim whose Node has been unhealthy for too long: without a budget and without a grace period.
func (p *repairer) step(ctx context.Context, r *reconciliation) (bool, error) {
	bad, due := broken(r.node, p.policies)
	if bad == "" {
		return true, nil
	}
	if left := due.Sub(p.now()); left > 0 {
		r.requeueAfter(left)
		return true, nil
	}
	why, err := p.blocked(ctx, r.claim.Labels[karpv1.NodePoolLabelKey])
	if err != nil {
		return false, err
	}
	if why != "" {
		p.recorder.Event(r.node, corev1.EventTypeWarning, "NodeRepairBlocked", why)
		r.requeueAfter(repairRetry)
		return true, nil
	}
	if err := p.endGrace(ctx, r.claim); err != nil {
		return false, err
	}
	if err := p.deleteClaim(ctx, r.claim, "unhealthy"); err != nil {
		return false, err
	}
	p.metrics.ClaimUnhealthy(r.claim, bad)
	since := conditions.OfNode(r.node, corev1.NodeConditionType(bad)).LastTransitionTime
	p.event(r.claim, r.node, corev1.EventTypeWarning, "Unhealthy", fmt.Sprintf(
		"Node condition %s has been bad since %s: the node is replaced", bad, since.UTC().Format(time.RFC3339)))
	return false, nil
}

// broken returns the condition of a Node whose toleration ends first, and when; "" if the Node is healthy.
func broken(node *corev1.Node, policies []cloud.RepairPolicy) (condition string, due time.Time) {
	for _, p := range policies {
		c := conditions.OfNode(node, corev1.NodeConditionType(p.Condition))
		if c == nil || string(c.Status) != p.Status {
			continue
		}
		if at := c.LastTransitionTime.Add(p.Toleration); condition == "" || at.Before(due) {
			condition, due = p.Condition, at
		}
	}
	return condition, due
}

// blocked returns why no Node of a pool is repaired now, or "". Nodes without a pool are judged by the whole cluster.
func (p *repairer) blocked(ctx context.Context, pool string) (string, error) {
	options := []client.ListOption{client.UnsafeDisableDeepCopy}
	where := "in the cluster"
	if pool != "" {
		options = append(options, client.MatchingLabels{karpv1.NodePoolLabelKey: pool})
		where = "in the nodepool"
	}
	var nodes corev1.NodeList
	if err := p.cache.List(ctx, &nodes, options...); err != nil {
		return "", fmt.Errorf("count unhealthy Nodes %s: %w", where, err)
	}
	bad := 0
	for i := range nodes.Items {
		if condition, _ := broken(&nodes.Items[i], p.policies); condition != "" {
			bad++
		}
	}
	if limit := (len(nodes.Items)*maxUnhealthyPercent + 99) / 100; bad > limit {
		return fmt.Sprintf("more than %d%% nodes are unhealthy %s: %d of %d; at most %d may be",
			maxUnhealthyPercent, where, bad, len(nodes.Items), limit), nil
	}
	return "", nil
}

// endGrace sets the time by which the pods of a claim's Node must be gone to now, unless it has already passed.
func (p *repairer) endGrace(ctx context.Context, claim *karpv1.NodeClaim) error {
	const key = karpv1.NodeClaimTerminationTimestampAnnotationKey
	if at, err := time.Parse(time.RFC3339, claim.Annotations[key]); err == nil && at.Before(p.now()) {
		return nil
	}
	before := claim.DeepCopy()
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Annotations[key] = p.now().Format(time.RFC3339)
	return p.writeMeta(ctx, before, claim)
}
