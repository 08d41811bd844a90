package nodeclaim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
)

// What is said of a Node that came without the taint that keeps pods away until it is registered (karpenter.md §7.1).
const (
	untainted        = "UnregisteredTaintMissing"
	untaintedMessage = "Missing karpenter.sh/unregistered taint which prevents registration related race conditions on Karpenter-managed nodes"
)

// register makes the Node that came with the claim's provider ID the claim's own.
func (l *Lifecycle) register(ctx context.Context, t *turn) (bool, error) {
	nodes, err := l.nodesOf(ctx, t.claim.Status.ProviderID)
	if err != nil {
		return false, err
	}
	conditions := t.claim.StatusConditions()
	if conditions.IsTrue(karpv1.ConditionTypeRegistered) {
		switch len(nodes) {
		case 0:
			return false, l.missing(ctx, t)
		case 1:
			t.node = nodes[0]
			l.found(t.claim.UID)
			if cameAgain(t.node) {
				return true, l.adopt(ctx, t.claim, t.node, false)
			}
		}
		return t.node != nil, nil
	}
	switch len(nodes) {
	case 0:
		return false, l.awaitNode(ctx, t)
	case 1:
	default:
		conditions.SetFalse(karpv1.ConditionTypeRegistered, "MultipleNodesFound",
			fmt.Sprintf("%d Nodes have provider ID %s; delete those that are not this machine", len(nodes), t.claim.Status.ProviderID))
		return false, l.awaitNode(ctx, t)
	}
	node := nodes[0]
	if node.DeletionTimestamp != nil {
		return false, l.deleteClaim(ctx, t.claim, "node_deleted")
	}
	late := node.Labels[karpv1.NodeRegisteredLabelKey] != "true" && !slices.ContainsFunc(node.Spec.Taints, unregistered)
	if err := l.adopt(ctx, t.claim, node, l.reserve(ctx, t.claim, node)); err != nil {
		return false, err
	}
	t.node = node
	t.claim.Status.NodeName = node.Name
	if late { // pods may be on it that do not tolerate its taints: it is used all the same, as the peer does
		conditions.SetTrueWithReason(karpv1.ConditionTypeRegistered, untainted, untaintedMessage)
		l.o.Recorder.Event(t.claim, corev1.EventTypeWarning, untainted, untaintedMessage)
	} else {
		conditions.SetTrue(karpv1.ConditionTypeRegistered)
	}
	l.metrics.NodeCreated(node)
	l.registered(t.claim, true)
	return true, nil
}

// cameAgain tells the Node of a registered machine that is not as its claim made it: a kubelet whose Node was taken away makes
// a new one, with the taint that keeps pods away, which nobody else would ever take off.
func cameAgain(node *corev1.Node) bool {
	return node.DeletionTimestamp == nil && node.Labels[karpv1.NodeRegisteredLabelKey] != "true"
}

// awaitNode gives up on a machine whose Node does not come in time.
func (l *Lifecycle) awaitNode(ctx context.Context, t *turn) error {
	since := t.claim.StatusConditions().Get(karpv1.ConditionTypeLaunched).LastTransitionTime.Time
	left := since.Add(registrationTimeout).Sub(l.now())
	if left <= 0 {
		return l.giveUp(ctx, t.claim, "registration_timeout")
	}
	t.in(max(left, time.Second))
	return nil
}

// adopt writes, in one patch, all that the claim wants its Node to be; if the machine is ready at once, that it is
// initialized too. With keep the Node takes no pods until then.
func (l *Lifecycle) adopt(ctx context.Context, claim *karpv1.NodeClaim, node *corev1.Node, keep bool) error {
	before := node.DeepCopy()
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	host, named := node.Labels[corev1.LabelHostname]
	maps.Copy(node.Labels, claim.Labels)
	if named { // what the machine calls itself is the machine's to say
		node.Labels[corev1.LabelHostname] = host
	}
	node.Labels[karpv1.NodeRegisteredLabelKey] = "true"
	for k, v := range claim.Annotations {
		if !strings.HasPrefix(k, "nodeless.sh/") && k != corev1.LastAppliedConfigAnnotation {
			node.Annotations[k] = v
		}
	}
	node.Spec.Taints = adoptedTaints(node, claim)
	own(node, claim)
	if len(notInitialized(node, claim)) == 0 {
		node.Labels[karpv1.NodeInitializedLabelKey] = "true"
	}
	if keep {
		translate.Keep(node)
	}
	return l.writeNode(ctx, before, node)
}

// unregistered tells the taint of a Node no claim has taken yet, whatever its effect: machines bring it as NoExecute,
// microVMs as NoSchedule (microvm/scheduler).
func unregistered(t corev1.Taint) bool { return t.Key == karpv1.UnregisteredTaintKey }

// adoptedTaints are the Node's own and its claim's, less the unregistered one.
func adoptedTaints(node *corev1.Node, claim *karpv1.NodeClaim) []corev1.Taint {
	out := slices.DeleteFunc(slices.Clone(node.Spec.Taints), unregistered)
	if node.Labels[karpv1.NodeDoNotSyncTaintsLabelKey] == "true" {
		return out
	}
	for _, want := range slices.Concat(claim.Spec.Taints, claim.Spec.StartupTaints) {
		if !slices.ContainsFunc(out, func(t corev1.Taint) bool { return t.MatchTaint(&want) }) {
			out = append(out, want)
		}
	}
	return out
}

// own puts finalizer and owner on a Node.
func own(node *corev1.Node, claim *karpv1.NodeClaim) {
	if !slices.Contains(node.Finalizers, karpv1.TerminationFinalizer) {
		node.Finalizers = append(node.Finalizers, karpv1.TerminationFinalizer)
	}
	if slices.ContainsFunc(node.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == claim.UID }) {
		return
	}
	block := true
	node.OwnerReferences = append(node.OwnerReferences, metav1.OwnerReference{
		APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: claim.Name, UID: claim.UID, BlockOwnerDeletion: &block,
	})
}

func hasTaint(node *corev1.Node, taint corev1.Taint) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) })
}

// initialize waits until the machine is fit for the pods it was made for. What was so once stays so for the claim; a Node that
// came a second time gets its label, by which pods are planned for it, when it is fit itself.
func (l *Lifecycle) initialize(ctx context.Context, t *turn) (bool, error) {
	conditions := t.claim.StatusConditions()
	labelled, was := t.node.Labels[karpv1.NodeInitializedLabelKey] == "true", conditions.IsTrue(karpv1.ConditionTypeInitialized)
	if was && (labelled || t.node.DeletionTimestamp != nil) {
		return true, nil
	}
	why := notInitialized(t.node, t.claim)
	if waits, err := l.open(ctx, t, len(why) == 0); err != nil || waits && len(why) == 0 {
		return false, err
	}
	if len(why) > 0 {
		if was {
			return true, nil
		}
		said := conditions.Get(karpv1.ConditionTypeInitialized)
		registered := conditions.Get(karpv1.ConditionTypeRegistered).LastTransitionTime.Time
		told := said.Reason == notReady || said.Reason == why[0].reason && said.Message == why[0].message
		if left := registered.Add(bootTime).Sub(l.now()); told && left > 0 {
			t.in(left)
			return false, nil
		}
		conditions.SetUnknownWithReason(karpv1.ConditionTypeInitialized, why[0].reason, why[0].message)
		return false, nil
	}
	if !labelled {
		before := t.node.DeepCopy()
		t.node.Labels[karpv1.NodeInitializedLabelKey] = "true"
		if err := l.writeNode(ctx, before, t.node); err != nil {
			return false, err
		}
	}
	if was {
		return true, nil
	}
	conditions.SetTrue(karpv1.ConditionTypeInitialized)
	l.o.Log.Info("machine is initialized", "nodeclaim", t.claim.Name, "node", t.node.Name)
	return true, nil
}

// A machine that boots meets one obstacle after the other for a moment: only the first, notReady, is written while it is
// younger than bootTime.
const (
	notReady = "NodeNotReady"
	bootTime = 10 * time.Second
)

type obstacle struct{ reason, message string }

// notInitialized says what stands between a Node and its being initialized, in a fixed order.
func notInitialized(node *corev1.Node, claim *karpv1.NodeClaim) []obstacle {
	var out []obstacle
	if !isReady(node) {
		out = append(out, obstacle{notReady, "the Node is not ready"})
	}
	for _, t := range node.Spec.Taints {
		switch {
		case slices.ContainsFunc(claim.Spec.StartupTaints, func(s corev1.Taint) bool { return s.MatchTaint(&t) }):
			out = append(out, obstacle{"StartupTaintsExist", fmt.Sprintf("startup taint %s is still there", t.ToString())})
		case translate.IsEphemeral(t.Key):
			out = append(out, obstacle{"KnownEphemeralTaintsExist", fmt.Sprintf("taint %s is still there", t.ToString())})
		}
	}
	names := slices.Sorted(maps.Keys(claim.Spec.Resources.Requests))
	for _, name := range names {
		wanted, has := claim.Spec.Resources.Requests[name], node.Status.Allocatable[name]
		if !wanted.IsZero() && has.IsZero() {
			out = append(out, obstacle{"ResourceNotRegistered", fmt.Sprintf("resource %s is not there yet", name)})
		}
	}
	return out
}
