package nodegroup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/controller/cluster"
)

// release lets go of a group whose NodeGroup is being deleted: its nodes stay as they are, and belong to nobody. Then
// the NodePool that was created for it goes. The finalizer of the NodeGroup is removed when it has no NodeClaims.
func (c *Controller) release(ctx context.Context, group *v1alpha1.NodeGroup) error {
	for _, claim := range c.o.Cluster.Claims() {
		if cluster.ClassRef(claim.Spec.NodeClassRef) != classOf(group.Name) || claim.DeletionTimestamp != nil {
			continue
		}
		if err := c.letGo(ctx, claim); err != nil {
			return fmt.Errorf("let go of NodeClaim %s, whose NodeGroup is being deleted: %w", claim.Name, err)
		}
	}
	for _, p := range c.o.Cluster.NodePools() {
		if p.Labels[v1alpha1.LabelNodeGroup] != group.Name || p.DeletionTimestamp != nil {
			continue
		}
		err := c.o.Client.Delete(ctx, &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: p.Name}})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete NodePool %s, whose NodeGroup is being deleted: %w", p.Name, err)
		}
	}
	return nil
}

// letGo removes a claim and leaves its Node and its instance alone. The order matters: a Node whose owner is gone would
// be collected, an instance that is marked as the claim's terminated, and a Node without labels taken up again.
func (c *Controller) letGo(ctx context.Context, claim *karpv1.NodeClaim) error {
	nodes := c.o.Cluster.NodesByProviderID(claim.Status.ProviderID)
	for i, node := range nodes {
		nodes[i] = disowned(node)
		if err := c.o.Client.Patch(ctx, nodes[i], client.MergeFrom(node)); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	if id := catalog.InstanceID(claim.Status.ProviderID); id != "" {
		if err := c.o.Cloud.ReleaseInstance(ctx, id); err != nil {
			return err
		}
	}
	free := claim.DeepCopy()
	free.Finalizers = nil
	err := c.o.Client.Patch(ctx, free, client.MergeFrom(claim))
	if err == nil {
		err = c.o.Client.Delete(ctx, free)
	}
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	for _, node := range nodes {
		if err := c.o.Client.Patch(ctx, unlabelled(node), client.MergeFrom(node)); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// disowned returns a Node that no claim owns and that ends without being drained.
func disowned(node *corev1.Node) *corev1.Node {
	out := node.DeepCopy()
	out.Finalizers = slices.DeleteFunc(out.Finalizers, func(f string) bool { return f == karpv1.TerminationFinalizer })
	out.OwnerReferences = slices.DeleteFunc(out.OwnerReferences,
		func(o metav1.OwnerReference) bool { return o.Kind == "NodeClaim" })
	return out
}

// unlabelled returns a Node without the labels that name its claim's pool and state.
func unlabelled(node *corev1.Node) *corev1.Node {
	out := node.DeepCopy()
	for key := range out.Labels {
		if strings.HasPrefix(key, "karpenter.sh/") || strings.HasPrefix(key, v1alpha1.GroupVersion.Group+"/") {
			delete(out.Labels, key)
		}
	}
	return out
}
