package nodeclaim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
)

const (
	// registrationTimeout is how long an instance may take to become a Node
	// (sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/lifecycle).
	registrationTimeout = 15 * time.Minute
	// nodeReturns is how long the Node of a registered claim may be missing: a restarting kubelet recreates it.
	nodeReturns = 30 * time.Second
)

// Reason and message for a Node that appeared without the taint that keeps pods away until it is registered
// (sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/lifecycle).
const (
	untainted        = "UnregisteredTaintMissing"
	untaintedMessage = "Missing karpenter.sh/unregistered taint which prevents registration related race conditions on " +
		"Karpenter-managed nodes"
)

// registrar adopts the Node that has a claim's provider ID, and waits until it is fit for pods.
type registrar struct {
	*objects
	outcomes    *launchOutcomes
	nominations bool
	nominate    func(ctx context.Context, claim, node string)
}

func newRegistrar(shared *objects, o Options, outcomes *launchOutcomes) *registrar {
	return &registrar{objects: shared, outcomes: outcomes, nominations: o.Gates.Nominations, nominate: o.Nominate}
}

// register is the step after which the claim is Registered and its Node is known.
func (g *registrar) register(ctx context.Context, r *reconciliation) (bool, error) {
	nodes, err := g.nodesOf(ctx, r.claim.Status.ProviderID)
	if err != nil {
		return false, err
	}
	found := r.claim.StatusConditions()
	if found.IsTrue(karpv1.ConditionTypeRegistered) {
		return g.find(ctx, r, nodes)
	}
	switch len(nodes) {
	case 0:
		return false, g.awaitNode(ctx, r)
	case 1:
	default:
		found.SetFalse(karpv1.ConditionTypeRegistered, multipleNodes, tooMany(nodes))
		return false, g.awaitNode(ctx, r)
	}
	node := nodes[0]
	if node.DeletionTimestamp != nil {
		return false, g.deleteClaim(ctx, r.claim, "node_deleted")
	}
	late := !isRegistered(node) && !ofGroup(r.claim) && !slices.ContainsFunc(node.Spec.Taints, isUnregistered)
	if err := g.adopt(ctx, r.claim, node, g.reserve(ctx, r.claim, node)); err != nil {
		return false, err
	}
	r.node = node
	r.claim.Status.NodeName = node.Name
	if late { // pods that do not tolerate its taints may be on it: like Karpenter, use it anyway
		found.SetTrueWithReason(karpv1.ConditionTypeRegistered, untainted, untaintedMessage)
		g.recorder.Event(r.claim, corev1.EventTypeWarning, untainted, untaintedMessage)
	} else {
		found.SetTrue(karpv1.ConditionTypeRegistered)
	}
	g.metrics.NodeCreated(node)
	g.outcomes.registered(r.claim, true)
	return true, nil
}

// find finds the Node of a Registered claim.
func (g *registrar) find(ctx context.Context, r *reconciliation, nodes []*corev1.Node) (bool, error) {
	if len(nodes) == 0 {
		return false, g.missing(ctx, r)
	}
	if len(nodes) > 1 {
		g.recorder.Event(r.claim, corev1.EventTypeWarning, multipleNodes, tooMany(nodes))
		return false, nil
	}
	node := nodes[0]
	g.state.claims.update(r.claim.UID, func(s *claimState) { s.nodeMissingSince = time.Time{} })
	// A kubelet whose Node was removed, or whose host name has changed, creates a new one with the taint that keeps pods
	// away. Only adopt removes it.
	returned := node.DeletionTimestamp == nil && !isRegistered(node)
	if returned {
		if there, err := g.exists(ctx, r.claim); !there || err != nil {
			return false, err
		}
	}
	r.node, r.claim.Status.NodeName = node, node.Name
	if returned {
		return true, g.adopt(ctx, r.claim, node, false)
	}
	return true, nil
}

// multipleNodes is the reason of the condition or event that names the Nodes of a claim that has several.
const multipleNodes = "MultipleNodesFound"

func tooMany(nodes []*corev1.Node) string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name
	}
	return fmt.Sprintf("%d Nodes have provider ID %s (%s); delete those that are not this instance", len(nodes),
		nodes[0].Spec.ProviderID, strings.Join(names, ", "))
}

// exists asks the API server whether a claim exists and is not being deleted: the cache may be late, and a NodeGroup
// that is deleted releases Nodes, which nothing would release again.
func (g *registrar) exists(ctx context.Context, claim *karpv1.NodeClaim) (bool, error) {
	now := &karpv1.NodeClaim{}
	err := g.client.Get(ctx, client.ObjectKey{Name: claim.Name}, now)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("look for NodeClaim %s: %w", claim.Name, err)
	}
	return err == nil && now.UID == claim.UID && now.DeletionTimestamp == nil, nil
}

func isRegistered(node *corev1.Node) bool {
	return node.Labels[karpv1.NodeRegisteredLabelKey] == "true"
}

// missing deletes a registered claim whose Node was removed despite its finalizer: the instance runs but accepts no
// pods, while plans assume that it will. It makes no difference whether a process led when the Node was removed.
func (g *registrar) missing(ctx context.Context, r *reconciliation) error {
	s := g.state.claims.update(r.claim.UID, func(s *claimState) {
		if s.nodeMissingSince.IsZero() {
			s.nodeMissingSince = g.now()
		}
	})
	if left := g.until(s.nodeMissingSince, nodeReturns); left > 0 {
		r.requeueAfter(left)
		return nil
	}
	err := g.client.Get(ctx, client.ObjectKey{Name: r.claim.Status.NodeName}, &corev1.Node{}) // the cache may be late
	switch {
	case apierrors.IsNotFound(err):
		return g.deleteClaim(ctx, r.claim, "node_missing")
	case err != nil:
		return fmt.Errorf("look for Node %s of NodeClaim %s: %w", r.claim.Status.NodeName, r.claim.Name, err)
	}
	r.requeueAfter(nodeReturns)
	return nil
}

// awaitNode gives up on an instance whose Node does not appear in time.
func (g *registrar) awaitNode(ctx context.Context, r *reconciliation) error {
	since := r.claim.StatusConditions().Get(karpv1.ConditionTypeLaunched).LastTransitionTime.Time
	left := g.until(since, registrationTimeout)
	if left <= 0 {
		return g.outcomes.giveUp(ctx, r.claim, "registration_timeout")
	}
	r.requeueAfter(max(left, time.Second))
	return nil
}

// adopt writes, in one patch, everything the claim requires of its Node, and that the Node is initialized if it is
// ready at once. A reserved Node accepts no pods until then.
func (g *registrar) adopt(ctx context.Context, claim *karpv1.NodeClaim, node *corev1.Node, reserve bool) error {
	before := node.DeepCopy()
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	host, named := node.Labels[corev1.LabelHostname]
	maps.Copy(node.Labels, claim.Labels)
	if named { // the kubelet knows its own name
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
	if len(g.obstacles(node, claim)) == 0 {
		node.Labels[karpv1.NodeInitializedLabelKey] = "true"
	}
	if reserve {
		translate.Reserve(node)
	}
	return g.writeNode(ctx, before, node)
}

// isUnregistered reports whether t is the taint of a Node that no claim has adopted yet, whatever its effect:
// instances start with it as NoExecute, microVMs as NoSchedule (microvm/scheduler).
func isUnregistered(t corev1.Taint) bool { return t.Key == karpv1.UnregisteredTaintKey }

// adoptedTaints returns the Node's own taints and its claim's, without the unregistered taint.
func adoptedTaints(node *corev1.Node, claim *karpv1.NodeClaim) []corev1.Taint {
	out := slices.DeleteFunc(slices.Clone(node.Spec.Taints), isUnregistered)
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

// own adds the finalizer and the owner to a Node.
func own(node *corev1.Node, claim *karpv1.NodeClaim) {
	controllerutil.AddFinalizer(node, karpv1.TerminationFinalizer)
	if slices.ContainsFunc(node.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == claim.UID }) {
		return
	}
	node.OwnerReferences = append(node.OwnerReferences, metav1.OwnerReference{
		APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: claim.Name, UID: claim.UID, BlockOwnerDeletion: ptr.To(true),
	})
}

func hasTaint(node *corev1.Node, taint corev1.Taint) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) })
}
