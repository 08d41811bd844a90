package nodeclaim

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/cloud"
)

// Node repair stops where more than so many machines of a pool are bad, since then it is not the machines, and looks
// again after a while (karpenter.md §4).
const (
	mostUnhealthyPercent = 20
	repairAgain          = 5 * time.Minute
)

// repair gives up a machine whose Node says for too long that something is broken: without budget, without grace.
func (l *Lifecycle) repair(ctx context.Context, t *turn) (bool, error) {
	if !l.repairs() {
		return true, nil
	}
	bad, due := broken(t.node, l.policies)
	if bad == "" {
		return true, nil
	}
	if left := due.Sub(l.now()); left > 0 {
		t.in(left)
		return true, nil
	}
	why, err := l.repairBlocked(ctx, t.claim.Labels[karpv1.NodePoolLabelKey])
	if err != nil {
		return false, err
	}
	if why != "" {
		l.o.Recorder.Event(t.node, corev1.EventTypeWarning, "NodeRepairBlocked", why)
		t.in(repairAgain)
		return true, nil
	}
	if err := l.endGrace(ctx, t.claim); err != nil {
		return false, err
	}
	if err := l.deleteClaim(ctx, t.claim, "unhealthy"); err != nil {
		return false, err
	}
	l.metrics.ClaimUnhealthy(t.claim, bad)
	l.tell(t.claim, t.node, corev1.EventTypeWarning, "Unhealthy", fmt.Sprintf("Node condition %s is bad since %s: the machine is replaced",
		bad, lastChange(t.node, bad).UTC().Format(time.RFC3339)))
	return false, nil
}

// repairs reports whether node repair is on and the cloud says what to repair.
func (l *Lifecycle) repairs() bool { return l.o.Gates.NodeRepair && len(l.policies) > 0 }

// broken is the condition of a Node that is first no longer put up with, and from when on; "" if all is well.
func broken(node *corev1.Node, policies []cloud.RepairPolicy) (condition string, due time.Time) {
	for _, p := range policies {
		for i := range node.Status.Conditions {
			c := &node.Status.Conditions[i]
			if string(c.Type) != p.Condition || string(c.Status) != p.Status {
				continue
			}
			if at := c.LastTransitionTime.Add(p.Toleration); condition == "" || at.Before(due) {
				condition, due = p.Condition, at
			}
		}
	}
	return condition, due
}

func lastChange(node *corev1.Node, condition string) time.Time {
	for i := range node.Status.Conditions {
		if string(node.Status.Conditions[i].Type) == condition {
			return node.Status.Conditions[i].LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// repairBlocked is why no machine of a pool is repaired now, "" if one may be. Machines without pool are judged by the
// whole cluster.
func (l *Lifecycle) repairBlocked(ctx context.Context, pool string) (string, error) {
	options := []client.ListOption{client.UnsafeDisableDeepCopy}
	where := "in the cluster"
	if pool != "" {
		options = append(options, client.MatchingLabels{karpv1.NodePoolLabelKey: pool})
		where = "in the nodepool"
	}
	var nodes corev1.NodeList
	if err := l.o.Cache.List(ctx, &nodes, options...); err != nil {
		return "", fmt.Errorf("count bad Nodes %s: %w", where, err)
	}
	bad := 0
	for i := range nodes.Items {
		if condition, _ := broken(&nodes.Items[i], l.policies); condition != "" {
			bad++
		}
	}
	if most := (len(nodes.Items)*mostUnhealthyPercent + 99) / 100; bad > most {
		return fmt.Sprintf("more than %d%% nodes are unhealthy %s: %d of %d, at most %d may be", mostUnhealthyPercent, where, bad, len(nodes.Items), most), nil
	}
	return "", nil
}

// endGrace makes now the time by which the pods of a claim's machine must be gone, unless that time is over already.
func (l *Lifecycle) endGrace(ctx context.Context, claim *karpv1.NodeClaim) error {
	const key = karpv1.NodeClaimTerminationTimestampAnnotationKey
	if at, err := time.Parse(time.RFC3339, claim.Annotations[key]); err == nil && at.Before(l.now()) {
		return nil
	}
	before := claim.DeepCopy()
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Annotations[key] = l.now().Format(time.RFC3339)
	return l.writeMeta(ctx, before, claim)
}
