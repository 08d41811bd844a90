package translate

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/internal/kit/conditions"
)

// Node translates a Node, a NodeClaim, or both if they belong to the same instance; one may be nil. The caller fills
// in Pods, Used, LastPodEvent of pods and, if it was not recorded, Price.
//
// While there is no Node, the resources are those that the launch reported or, before that, those that apply
// expected.
func (n *Names) Node(node *corev1.Node, claim *karpv1.NodeClaim) model.Node {
	if node == nil {
		return n.inFlight(claim)
	}
	out := model.Node{
		Name: node.Name, Pool: node.Labels[karpv1.NodePoolLabelKey], Created: node.CreationTimestamp.Time,
		Cordoned: node.Spec.Unschedulable && !Reserved(node), Deleting: node.DeletionTimestamp != nil,
		DoNotDisrupt: NodeHeldBy(node) != "",
	}
	labels := node.Labels
	var startup []corev1.Taint
	expected := Expected{}
	if claim == nil {
		out.State, out.Initialized = unmanagedState(node)
	} else {
		n.fromClaim(&out, claim)
		expected = n.expected(claim)
		startup = claim.Spec.StartupTaints
		out.State, out.Initialized = managedState(node, claim)
		if out.State != model.Initialized {
			labels = merged(claim.Labels, node.Labels)
		}
	}
	out.Labels = Labels(labels)
	out.Type, out.Zone, out.CapacityType = labels[model.LabelInstanceType], labels[model.LabelZone],
		labels[model.LabelCapacityType]
	taints := node.Spec.Taints
	if !out.Cordoned { // the taint is about to be removed
		taints = withoutCordon(node)
	}
	out.Taints = schedulingTaints(taints, startup, claim == nil || out.State == model.Initialized)
	for _, t := range node.Spec.Taints {
		out.Deleting = out.Deleting || t.Key == karpv1.DisruptedTaintKey
	}
	out.Deleting = out.Deleting || Migrating(node)
	out.Capacity, _ = n.Resources(node.Status.Capacity)
	out.Allocatable, _ = n.Resources(node.Status.Allocatable)
	if out.State != model.Initialized {
		out.Capacity = orElse(out.Capacity, expected.Capacity)
		out.Allocatable = orElse(out.Allocatable, expected.Allocatable)
	}
	return out
}

// Migrating reports whether `nodeless migrate` is moving the pods of a node away.
func Migrating(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == v1alpha1.MigrationTaint && t.Value == v1alpha1.MigrationDrain
	})
}

// inFlight translates a NodeClaim without a Node. Its labels are the sets of values that the claim allows.
func (n *Names) inFlight(claim *karpv1.NodeClaim) model.Node {
	out := model.Node{Name: claim.Name, State: model.InFlight}
	n.fromClaim(&out, claim)
	expected := n.expected(claim)
	out.Capacity, out.Allocatable, out.Price = expected.Capacity, expected.Allocatable, expected.Price
	out.Taints = Taints(claim.Spec.Taints)
	required, err := Requirements(claim.Spec.Requirements)
	out.Labels = required.And(Labels(claim.Labels))
	if err != nil {
		out.Cordoned = true // the launch reports why
	}
	out.Type, out.Zone, out.CapacityType = claim.Labels[model.LabelInstanceType], claim.Labels[model.LabelZone],
		claim.Labels[model.LabelCapacityType]
	return out
}

// fromClaim fills in what the NodeClaim alone determines.
func (n *Names) fromClaim(out *model.Node, claim *karpv1.NodeClaim) {
	out.Claim = claim.Name
	if pool := claim.Labels[karpv1.NodePoolLabelKey]; pool != "" {
		out.Pool = pool
	}
	out.Created = claim.CreationTimestamp.Time
	out.Deadline = claim.Spec.TerminationGracePeriod != nil
	out.LastPodEvent = claim.Status.LastPodEventTime.Time
	out.Deleting = out.Deleting || claim.DeletionTimestamp != nil ||
		conditions.IsTrue(claim, karpv1.ConditionTypeInstanceTerminating)
	_, _, interrupted := Interrupted(claim)
	out.Deleting = out.Deleting || interrupted
	out.DoNotDisrupt = out.DoNotDisrupt || claim.Annotations[karpv1.DoNotDisruptAnnotationKey] == "true"
	if command, ok, err := CommandOf(claim); ok && err == nil {
		out.Command, out.Deleting = command.ID, true
	}
	if after := claim.Spec.ExpireAfter.Duration; after != nil {
		out.Expires = out.Created.Add(*after)
	}
	if c := conditions.Of(claim, karpv1.ConditionTypeDrifted); c != nil && c.IsTrue() {
		out.Drifted, out.DriftedSince = c.Reason, c.LastTransitionTime.Time
	}
}

// managedState returns the state of a node with a NodeClaim, and since when it is initialized. The Node's label
// decides, which is written when the startup taints are removed, or later. The claim arrives through another watch
// and may be ahead of the Node: the Node's taints would then exclude pods that have a place there, and another node
// would be launched for them.
func managedState(node *corev1.Node, claim *karpv1.NodeClaim) (model.NodeState, time.Time) {
	if node.Labels[karpv1.NodeInitializedLabelKey] != "true" {
		return model.Registered, time.Time{}
	}
	if c := conditions.Of(claim, karpv1.ConditionTypeInitialized); c != nil && c.IsTrue() {
		return model.Initialized, c.LastTransitionTime.Time
	}
	return model.Initialized, node.CreationTimestamp.Time
}

// unmanagedState returns the state of a node without a NodeClaim: all of its taints count, so being ready is enough.
func unmanagedState(node *corev1.Node) (model.NodeState, time.Time) {
	if at, ok := ReadySince(node); ok {
		return model.Initialized, at
	}
	return model.Registered, time.Time{}
}

// ReadySince returns when the node's readiness last changed, and whether it is ready.
func ReadySince(node *corev1.Node) (time.Time, bool) {
	c := conditions.OfNode(node, corev1.NodeReady)
	if c == nil {
		return time.Time{}, false
	}
	return c.LastTransitionTime.Time, c.Status == corev1.ConditionTrue
}

func orElse(r, other model.Resources) model.Resources {
	for i := range r {
		if r[i] == 0 {
			r[i] = other[i]
		}
	}
	return r
}

func merged(under, over map[string]string) map[string]string {
	out := make(map[string]string, len(under)+len(over))
	maps.Copy(out, under)
	maps.Copy(out, over)
	return out
}
