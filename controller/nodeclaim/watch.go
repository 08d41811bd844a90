package nodeclaim

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/internal/kit/conditions"
	"github.com/nodeless/nodeless/internal/kit/informer"
)

// watch adds handlers to the cache. old is nil for a new object, now for a deleted one.
func (c *Controller) watch(ctx context.Context) error {
	for _, h := range []struct {
		object  client.Object
		changed func(old, now client.Object)
	}{
		{&karpv1.NodeClaim{}, c.whileLeading(c.claimChanged)},
		{&corev1.Node{}, c.nodeChanged},
		{&corev1.Pod{}, c.podChanged},
		{&storagev1.VolumeAttachment{}, c.whileLeading(c.attachmentChanged)},
		{&karpv1.NodePool{}, c.whileLeading(c.poolChanged)},
	} {
		if err := informer.Watch(ctx, c.cache, h.object, h.changed); err != nil {
			return err
		}
	}
	return nil
}

// whileLeading drops events before this process leads. Until then nothing empties the queues, and a long-running
// standby would accumulate the name of every claim that ever existed. resume reads the existing objects.
func (c *Controller) whileLeading(changed func(old, now client.Object)) func(old, now client.Object) {
	return func(old, now client.Object) {
		if c.leading.Load() {
			changed(old, now)
		}
	}
}

func (c *Controller) claimChanged(old, now client.Object) {
	if now == nil {
		now = old
		c.wroteClaims.Forget(old.GetUID())
	} else if claim := now.(*karpv1.NodeClaim); claim.Status.ProviderID != "" &&
		(old == nil || old.(*karpv1.NodeClaim).Status.ProviderID == "") {
		c.replacements.launched(claim.Name)
	}
	c.claims.Add(now.GetName())
}

func (c *Controller) nodeChanged(old, now client.Object) {
	if now == nil {
		c.wroteNodes.Forget(old.GetUID())
		c.state.nodes.forget(old.GetName())
		c.addClaimOf(old.(*corev1.Node))
		return
	}
	node := now.(*corev1.Node)
	if old != nil && !c.nodeMatters(old.(*corev1.Node), node) {
		return
	}
	c.noteRefusal(node)
	if node.DeletionTimestamp != nil && c.leading.Load() {
		c.nodes.Add(node.Name)
	}
	c.addClaimOf(node)
}

// nodeMatters reports whether a change of a Node is more than a heartbeat.
func (c *Controller) nodeMatters(old, now *corev1.Node) bool {
	return c.repairer.changed(old, now) || old.Spec.ProviderID != now.Spec.ProviderID ||
		old.DeletionTimestamp.IsZero() != now.DeletionTimestamp.IsZero() ||
		!equal(old.Spec.Taints, now.Spec.Taints) || !equal(old.Labels, now.Labels) ||
		!equal(old.Finalizers, now.Finalizers) ||
		!equal(old.OwnerReferences, now.OwnerReferences) || !equal(old.Status.Allocatable, now.Status.Allocatable) ||
		conditions.NodeReady(old) != conditions.NodeReady(now)
}

// addClaimOf queues the claims of a Node.
func (c *Controller) addClaimOf(node *corev1.Node) {
	if !c.leading.Load() {
		return
	}
	if name := claimOwner(node); name != "" {
		c.claims.Add(name)
		return
	}
	claims, err := c.claimsOf(context.Background(), node.Spec.ProviderID)
	if err != nil {
		return // the cache has not started: resume adds every claim
	}
	for i := range claims {
		c.claims.Add(claims[i].Name)
	}
}

func claimOwner(node *corev1.Node) string {
	for _, o := range node.OwnerReferences {
		if o.Kind == "NodeClaim" {
			return o.Name
		}
	}
	return ""
}

// podChanged records when pods are added to or removed from Nodes, and continues their drains.
func (c *Controller) podChanged(old, now client.Object) {
	pod, _ := now.(*corev1.Pod)
	was, _ := old.(*corev1.Pod)
	either := pod
	if either == nil {
		either = was
	}
	name := either.Spec.NodeName
	if name == "" {
		return
	}
	at, counts := c.podEvent(was, pod)
	node := c.cluster.Node(name)
	if counts && (pod != nil || node != nil) { // not for a Node that was deleted before its pods
		c.state.nodes.update(name, func(s *nodeState) {
			if at.After(s.podEvent) {
				s.podEvent = at
			}
		})
	}
	if node == nil || !c.leading.Load() { // its claim is reconciled when the Node appears, or when we lead
		return
	}
	if counts {
		c.addClaimOf(node)
	}
	if node.DeletionTimestamp != nil {
		c.nodes.Add(name)
	}
}

// podEvent returns when a pod was added or removed, and whether the change is such an event. Pods of DaemonSets do
// not count.
func (c *Controller) podEvent(was, pod *corev1.Pod) (time.Time, bool) {
	if pod == nil {
		before := translate.ReadPod(was)
		return c.now(), !before.Daemon() && !before.Terminal && !before.Deleting
	}
	p := translate.ReadPod(pod)
	switch {
	case p.Daemon():
		return time.Time{}, false
	case was == nil:
		return p.Event, !p.Event.IsZero()
	}
	before := translate.ReadPod(was)
	return c.now(), before.Node != p.Node || before.Terminal != p.Terminal || before.Deleting != p.Deleting
}

func (c *Controller) attachmentChanged(old, now client.Object) {
	if old != nil && now == nil {
		c.nodes.Add(old.(*storagev1.VolumeAttachment).Spec.NodeName)
	}
}

// poolChanged queues the claims of a pool when the pool is created or deleted, or when a part of it changes that
// claims are compared with.
func (c *Controller) poolChanged(old, now client.Object) {
	if now == nil {
		c.drift.templates.forget(old.GetUID())
		old, now = nil, old
	}
	if old != nil && old.GetGeneration() == now.GetGeneration() &&
		old.GetDeletionTimestamp().IsZero() == now.GetDeletionTimestamp().IsZero() &&
		hashVersion(old) == hashVersion(now) {
		return
	}
	for _, claim := range c.cluster.Claims() {
		if claim.Labels[karpv1.NodePoolLabelKey] == now.GetName() {
			c.claims.Add(claim.Name)
		}
	}
}

func hashVersion(pool client.Object) string {
	return pool.GetAnnotations()[karpv1.NodePoolHashVersionAnnotationKey]
}
