package nodegroup

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/controller/cluster"
)

// unneeded is how long a node of a NodePool created here must be unneeded before it is removed, as with Cluster
// Autoscaler (--scale-down-unneeded-time).
const unneeded = "10m"

// pool returns the NodePool of a group. It creates one if no NodePool refers to the group. The labels and taints of a
// NodePool created here follow the group's tags; users may change everything else. It returns nil if there is none,
// and records an event that says why.
func (c *Controller) pool(ctx context.Context, group *v1alpha1.NodeGroup) (*karpv1.NodePool, error) {
	var taken *karpv1.NodePool
	for _, p := range c.o.Cluster.NodePools() {
		if cluster.ClassRef(p.Spec.Template.Spec.NodeClassRef) == classOf(group.Name) {
			return c.follow(ctx, group, p)
		}
		if p.Name == group.Name {
			taken = p
		}
	}
	if taken != nil {
		c.o.Recorder.Eventf(group, corev1.EventTypeWarning, "NoNodePool", "NodePool %s has another node class: create a "+
			"NodePool of another name whose nodeClassRef is this NodeGroup", group.Name)
		return nil, nil
	}
	p := newPool(group)
	err := c.o.Client.Create(ctx, p)
	if apierrors.IsForbidden(err) {
		c.o.Recorder.Eventf(group, corev1.EventTypeWarning, "NoNodePool", "no NodePool refers to it, and the controller may "+
			"create none: create one whose nodeClassRef is this NodeGroup, or allow it (nodeless rbac --node-groups)")
		return nil, nil
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("create the NodePool of NodeGroup %s: %w", group.Name, err)
	}
	return p, nil
}

// newPool returns the NodePool of a group.
func newPool(group *v1alpha1.NodeGroup) *karpv1.NodePool {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{
		Name: group.Name, Labels: map[string]string{v1alpha1.LabelNodeGroup: group.Name},
	}}
	p.Spec.Disruption = karpv1.Disruption{
		ConsolidationPolicy: karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized,
		ConsolidateAfter:    karpv1.MustParseNillableDuration(unneeded),
		Budgets:             []karpv1.Budget{{Nodes: "10%"}},
	}
	p.Spec.Template.Labels = labelsOf(group)
	p.Spec.Template.Spec = karpv1.NodeClaimTemplateSpec{
		NodeClassRef: &karpv1.NodeClassReference{
			Group: v1alpha1.GroupVersion.Group, Kind: v1alpha1.NodeGroupKind, Name: group.Name,
		},
		Taints:       group.Status.Taints,
		Requirements: []karpv1.NodeSelectorRequirementWithMinValues{},
		ExpireAfter:  karpv1.MustParseNillableDuration(karpv1.Never),
	}
	return p
}

// labelsOf returns the labels from a group's tags that a NodePool may have: the others belong to the kubelet or the
// cloud.
func labelsOf(group *v1alpha1.NodeGroup) map[string]string {
	out := maps.Clone(group.Status.Labels)
	maps.DeleteFunc(out, func(key, _ string) bool {
		return karpv1.IsRestrictedLabel(key) != nil || karpv1.WellKnownLabels.Has(key)
	})
	return out
}

// follow updates the labels and taints of a NodePool that was created here to its group's tags.
func (c *Controller) follow(ctx context.Context, group *v1alpha1.NodeGroup,
	p *karpv1.NodePool,
) (*karpv1.NodePool, error) {
	want := newPool(group).Spec.Template
	if p.Labels[v1alpha1.LabelNodeGroup] != group.Name || p.DeletionTimestamp != nil ||
		equality.Semantic.DeepEqual(p.Spec.Template.Labels, want.Labels) &&
			equality.Semantic.DeepEqual(p.Spec.Template.Spec.Taints, want.Spec.Taints) {
		return p, nil
	}
	changed := p.DeepCopy()
	changed.Spec.Template.Labels, changed.Spec.Template.Spec.Taints = want.Labels, want.Spec.Taints
	if err := c.o.Client.Patch(ctx, changed, client.MergeFrom(p)); err != nil {
		return nil, fmt.Errorf("give NodePool %s the labels and taints of its group: %w", p.Name, err)
	}
	return changed, nil
}
