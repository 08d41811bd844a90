package nodegroup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/translate"
)

// release gives up a group whose NodeGroup is being deleted: its nodes stay as they are and are no longer managed.
// Then it deletes the NodePool that was created for the group. The finalizer of the NodeGroup is removed when it has
// no NodeClaims.
//
// A claim without an instance waits, and the NodePool with it: a launch may be giving it an instance of the group now,
// and would terminate the instance of a claim that is gone. The wait ends: launches that begin now are refused, which
// deletes their claims.
func (c *Controller) release(ctx context.Context, group *v1alpha1.NodeGroup) error {
	var waiting []*karpv1.NodeClaim
	for _, claim := range c.o.Cluster.Claims() {
		if cluster.ClassRef(claim.Spec.NodeClassRef) != classOf(group.Name) || claim.DeletionTimestamp != nil {
			continue
		}
		if claim.Status.ProviderID == "" {
			waiting = append(waiting, claim)
			continue
		}
		if err := c.letGo(ctx, claim); err != nil {
			return fmt.Errorf("let go of NodeClaim %s, whose NodeGroup is being deleted: %w", claim.Name, err)
		}
	}
	if len(waiting) > 0 {
		return c.releaseAdopted(ctx, waiting)
	}
	if err := c.reopenLeft(ctx, group.Name); err != nil {
		return err
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

// releaseAdopted removes the marks from the instances that claims without an instance adopt: an earlier launch may
// have marked them, and a claim is deleted with the instances that have its mark.
func (c *Controller) releaseAdopted(ctx context.Context, claims []*karpv1.NodeClaim) error {
	for _, claim := range claims {
		id := claim.Annotations[v1alpha1.AnnotationInstance]
		if id == "" {
			continue
		}
		if err := c.o.Cloud.ReleaseInstance(ctx, id); err != nil {
			return fmt.Errorf("release instance %s of NodeClaim %s, whose NodeGroup is being deleted: %w", id, claim.Name, err)
		}
	}
	return nil
}

// letGo removes a claim and leaves its Node and its instance alone. The order matters: a Node whose owner is gone
// would be garbage collected, an instance still marked as the claim's would be terminated, and a Node without labels
// would be adopted again.
func (c *Controller) letGo(ctx context.Context, claim *karpv1.NodeClaim) error {
	for _, node := range c.o.Cluster.NodesByProviderID(claim.Status.ProviderID) {
		if err := c.o.Client.Patch(ctx, disowned(node), client.MergeFrom(node)); client.IgnoreNotFound(err) != nil {
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
	// A Node may have registered in the meantime.
	for _, node := range c.o.Cluster.NodesByProviderID(claim.Status.ProviderID) {
		if err := c.reopen(ctx, claim, node); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// reopenLeft makes Nodes of a NodeGroup what they would be without their claims, which an earlier process removed just
// before it ended.
func (c *Controller) reopenLeft(ctx context.Context, group string) error {
	class := schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: v1alpha1.NodeGroupKind}
	var nodes corev1.NodeList
	if err := c.o.Client.List(ctx, &nodes, client.MatchingLabels{karpv1.NodeClassLabelKey(class): group}); err != nil {
		return fmt.Errorf("list the Nodes of NodeGroup %s: %w", group, err)
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if node.DeletionTimestamp != nil || c.o.Cluster.ClaimByProviderID(node.Spec.ProviderID) != nil {
			continue
		}
		if err := c.reopen(ctx, nil, node); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("open Node %s, which NodeGroup %s no longer manages: %w", node.Name, group, err)
		}
	}
	return nil
}

// reopen makes a Node what it would be without its claim. The claim is gone, so nothing else would try again after a
// conflict with others that write the Node's taints.
func (c *Controller) reopen(ctx context.Context, claim *karpv1.NodeClaim, node *corev1.Node) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		err := c.o.Client.Patch(ctx, reopened(claim, disowned(node)),
			client.MergeFromWithOptions(node, client.MergeFromWithOptimisticLock{}))
		if !apierrors.IsConflict(err) {
			return err
		}
		fresh := &corev1.Node{}
		if err := c.o.Client.Get(ctx, client.ObjectKeyFromObject(node), fresh); err != nil {
			return err
		}
		if fresh.UID != node.UID {
			return nil
		}
		node = fresh
		return err
	})
}

// disowned returns a Node that no claim owns and that is deleted without being drained.
func disowned(node *corev1.Node) *corev1.Node {
	out := node.DeepCopy()
	out.Finalizers = slices.DeleteFunc(out.Finalizers, func(f string) bool { return f == karpv1.TerminationFinalizer })
	out.OwnerReferences = slices.DeleteFunc(out.OwnerReferences,
		func(o metav1.OwnerReference) bool { return o.Kind == "NodeClaim" })
	return out
}

// reopened returns a Node without the labels that name its claim's pool and state, and open to pods again: nothing
// will drain it or uncordon it any more. One whose instance the cloud is reclaiming stays closed.
func reopened(claim *karpv1.NodeClaim, node *corev1.Node) *corev1.Node {
	out := node.DeepCopy()
	translate.Unreserve(out)
	if _, _, interrupted := translate.Interrupted(claim); !interrupted {
		out.Spec.Taints = slices.DeleteFunc(out.Spec.Taints,
			func(t corev1.Taint) bool { return t.Key == karpv1.DisruptedTaintKey })
	}
	for key := range out.Labels {
		if strings.HasPrefix(key, "karpenter.sh/") || strings.HasPrefix(key, v1alpha1.GroupVersion.Group+"/") {
			delete(out.Labels, key)
		}
	}
	return out
}
