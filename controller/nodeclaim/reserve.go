package nodeclaim

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
)

// mostKept is how long a Node waits at most, from its registration on, until it is initialized and takes pods: what would make it so may be
// a pod that is no DaemonSet's.
const mostKept = time.Minute

// mostUntainted is how long a Node that is fit waits for the taint that kube-controller-manager gives a cordoned one: taken off before it comes, it would
// come after, and kube-scheduler would give up the nominations for it.
const mostUntainted = 5 * time.Second

// reserve reports whether a Node that is about to be registered should take no pods until it is initialized: those that it was launched for
// are nominated then, and not before, since kube-scheduler gives up a nomination to a Node that it may not use yet. Pods of a Node that is
// fit already are nominated at once.
func (l *Lifecycle) reserve(ctx context.Context, claim *karpv1.NodeClaim, node *corev1.Node) bool {
	if !l.o.Gates.Nominations || len(l.o.World.Promised(claim.Name)) == 0 {
		return false
	}
	if len(notInitialized(&corev1.Node{Spec: corev1.NodeSpec{Taints: adoptedTaints(node, claim)}, Status: node.Status}, claim)) > 0 {
		return true
	}
	l.o.Nominate(ctx, claim.Name, node.Name)
	return false
}

// open has a kept Node take pods, once it is fit or has waited enough, and reports whether it still waits.
func (l *Lifecycle) open(ctx context.Context, t *turn, fit bool) (waits bool, err error) {
	if !translate.Kept(t.node) || t.node.DeletionTimestamp != nil {
		return false, nil
	}
	most := mostKept
	if fit {
		most = mostUntainted
	}
	left := t.claim.StatusConditions().Get(karpv1.ConditionTypeRegistered).LastTransitionTime.Add(most).Sub(l.now())
	if left > 0 && !(fit && translate.Tainted(t.node)) {
		t.in(left)
		return true, nil
	}
	if l.o.Nominate != nil {
		l.o.Nominate(ctx, t.claim.Name, t.node.Name)
	}
	before := t.node.DeepCopy()
	if translate.Open(t.node); fit {
		t.node.Labels[karpv1.NodeInitializedLabelKey] = "true"
	}
	return false, l.writeNode(ctx, before, t.node)
}
