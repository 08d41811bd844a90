package nodeclaim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/internal/kit/conditions"
)

const (
	// maxReserved is how long after its registration a Node may be reserved, refusing pods until it is initialized. It
	// may be waiting for a pod that belongs to no DaemonSet to initialize it.
	maxReserved = time.Minute
	// maxUntainted is how long a fit Node waits for the taint that kube-controller-manager adds to a cordoned Node. If
	// it were uncordoned before, it would get the taint afterwards, and kube-scheduler would drop the nominations for
	// it.
	maxUntainted = 5 * time.Second
)

// A booting Node meets one obstacle after the other: while it is younger than bootTime, only the first one, notReady,
// is written.
const (
	notReady = "NodeNotReady"
	bootTime = 10 * time.Second
)

// How often to check for a driver that has yet to publish its devices (Karpenter's reason), which the Node does not
// show.
const (
	notPublished    = "DRADriverPoolsNotPublished"
	publishedPeriod = time.Second
)

// reserve reports whether a Node that is about to be registered should accept no pods until it is initialized. Only
// then are the pods that it was launched for nominated: kube-scheduler drops a nomination to a Node that it may not
// use yet. If the Node is already fit, reserve nominates them at once. If no other pods may take the Node, or all
// waiting pods are alike, kube-scheduler needs no nominations.
func (g *registrar) reserve(ctx context.Context, claim *karpv1.NodeClaim, node *corev1.Node) bool {
	if !g.nominations || len(g.cluster.Promised(claim.Name)) == 0 || !g.cluster.Contested(claim.Name) {
		return false
	}
	adopted := &corev1.Node{
		ObjectMeta: node.ObjectMeta, Spec: corev1.NodeSpec{Taints: adoptedTaints(node, claim)}, Status: node.Status,
	}
	if len(g.obstacles(adopted, claim)) > 0 {
		return true
	}
	g.nominate(ctx, claim.Name, node.Name)
	return false
}

// release opens a reserved Node that is fit or has waited long enough to pods, and reports whether it still waits.
func (g *registrar) release(ctx context.Context, r *reconciliation, fit bool) (waits bool, err error) {
	if !translate.Reserved(r.node) || r.node.DeletionTimestamp != nil {
		return false, nil
	}
	limit := maxReserved
	if fit {
		limit = maxUntainted
	}
	left := g.until(r.claim.StatusConditions().Get(karpv1.ConditionTypeRegistered).LastTransitionTime.Time, limit)
	if left > 0 && !(fit && translate.HasCordonTaint(r.node)) {
		r.requeueAfter(left)
		return true, nil
	}
	if g.nominate != nil && g.cluster.Contested(r.claim.Name) {
		g.nominate(ctx, r.claim.Name, r.node.Name)
	}
	before := r.node.DeepCopy()
	if translate.Unreserve(r.node); fit {
		r.node.Labels[karpv1.NodeInitializedLabelKey] = "true"
	}
	return false, g.writeNode(ctx, before, r.node)
}

// initialize is the step that waits until the Node is fit for the pods it was launched for. A claim once initialized
// stays so. A recreated Node gets its label, which makes plans use it, when it is fit itself.
func (g *registrar) initialize(ctx context.Context, r *reconciliation) (bool, error) {
	found := r.claim.StatusConditions()
	labelled := r.node.Labels[karpv1.NodeInitializedLabelKey] == "true"
	was := found.IsTrue(karpv1.ConditionTypeInitialized)
	if was && (labelled || r.node.DeletionTimestamp != nil) {
		return true, nil
	}
	why := g.obstacles(r.node, r.claim)
	if waits, err := g.release(ctx, r, len(why) == 0); err != nil || waits && len(why) == 0 {
		return false, err
	}
	if len(why) > 0 {
		if !was {
			g.noteObstacle(r, why[0])
		}
		return was, nil
	}
	if !labelled {
		before := r.node.DeepCopy()
		r.node.Labels[karpv1.NodeInitializedLabelKey] = "true"
		if err := g.writeNode(ctx, before, r.node); err != nil {
			return false, err
		}
	}
	if !was {
		found.SetTrue(karpv1.ConditionTypeInitialized)
		g.log.Info("Node initialized", "nodeclaim", r.claim.Name, "node", r.node.Name)
	}
	return true, nil
}

// noteObstacle writes on the claim why it is not initialized.
func (g *registrar) noteObstacle(r *reconciliation, why obstacle) {
	if why.reason == notPublished {
		r.requeueAfter(publishedPeriod)
	}
	found := r.claim.StatusConditions()
	said := found.Get(karpv1.ConditionTypeInitialized)
	told := said.Reason == notReady || said.Reason == why.reason && said.Message == why.message
	left := g.until(found.Get(karpv1.ConditionTypeRegistered).LastTransitionTime.Time, bootTime)
	if told && left > 0 {
		r.requeueAfter(left)
		return
	}
	found.SetUnknownWithReason(karpv1.ConditionTypeInitialized, why.reason, why.message)
}

type obstacle struct{ reason, message string }

// obstacles returns what keeps a Node from being initialized, in a fixed order.
func (g *registrar) obstacles(node *corev1.Node, claim *karpv1.NodeClaim) []obstacle {
	var out []obstacle
	if !conditions.NodeReady(node) {
		out = append(out, obstacle{notReady, "the Node is not ready"})
	}
	for _, t := range node.Spec.Taints {
		switch {
		case slices.ContainsFunc(claim.Spec.StartupTaints, func(s corev1.Taint) bool { return s.MatchTaint(&t) }):
			out = append(out, obstacle{"StartupTaintsExist", fmt.Sprintf("startup taint %s has not been removed", t.ToString())})
		case translate.IsEphemeral(t.Key):
			out = append(out, obstacle{"KnownEphemeralTaintsExist", fmt.Sprintf("taint %s has not been removed", t.ToString())})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(claim.Spec.Resources.Requests)) {
		wanted, has := claim.Spec.Resources.Requests[name], node.Status.Allocatable[name]
		if !wanted.IsZero() && has.IsZero() {
			out = append(out, obstacle{"ResourceNotRegistered", fmt.Sprintf("resource %s is not registered yet", name)})
		}
	}
	if driver := g.cluster.UnpublishedDriver(claim, node.Name); driver != "" {
		message := fmt.Sprintf("DRA driver %q has not published a complete resource pool", driver)
		out = append(out, obstacle{notPublished, message})
	}
	return out
}
