package nodeclaim

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

func equal(a, b any) bool { return equality.Semantic.DeepEqual(a, b) }

// locked is a merge patch that fails if the object is no longer as it was read: for lists, which a merge replaces whole.
func locked(from client.Object) client.Patch {
	return client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{})
}

// writeMeta writes labels, annotations and finalizers of a claim if they changed; claim becomes what the server answers,
// with the status that claim had.
func (l *Lifecycle) writeMeta(ctx context.Context, before, claim *karpv1.NodeClaim) error {
	if equal(before.ObjectMeta, claim.ObjectMeta) {
		return nil
	}
	wanted := claim.Status.DeepCopy()
	if err := l.o.Client.Patch(ctx, claim, locked(before)); err != nil {
		return fmt.Errorf("update NodeClaim %s: %w", claim.Name, err)
	}
	l.observe(claim)
	before.ObjectMeta = *claim.ObjectMeta.DeepCopy()
	claim.Status = *wanted
	return nil
}

// writeStatus writes a claim's status if it changed.
func (l *Lifecycle) writeStatus(ctx context.Context, before, claim *karpv1.NodeClaim) error {
	if equal(before.Status, claim.Status) {
		return nil
	}
	if err := l.o.Client.Status().Patch(ctx, claim, locked(before)); err != nil {
		return fmt.Errorf("update status of NodeClaim %s: %w", claim.Name, err)
	}
	l.observe(claim)
	return nil
}

func (l *Lifecycle) observe(claim *karpv1.NodeClaim) {
	kept := claim.DeepCopy()
	l.wroteClaims.Mutated(kept)
	l.o.World.ObserveClaim(kept)
}

// writeNode patches a Node if it changed. Its taints are a list that others write too: then the patch is locked.
func (l *Lifecycle) writeNode(ctx context.Context, before, node *corev1.Node) error {
	if equal(before, node) {
		return nil
	}
	patch := client.MergeFrom(before)
	if !equal(before.Spec.Taints, node.Spec.Taints) || !equal(before.Finalizers, node.Finalizers) || !equal(before.OwnerReferences, node.OwnerReferences) {
		patch = locked(before)
	}
	if err := l.o.Client.Patch(ctx, node, patch); err != nil {
		return fmt.Errorf("update Node %s: %w", node.Name, err)
	}
	l.wroteNodes.Mutated(node.DeepCopy())
	return nil
}

// deleteClaim asks for the end of a claim; that it is gone or going already is fine.
func (l *Lifecycle) deleteClaim(ctx context.Context, claim *karpv1.NodeClaim, why string) error {
	if claim.DeletionTimestamp != nil || l.deletedJustNow(claim) {
		return nil
	}
	uid := claim.UID
	err := l.o.Client.Delete(ctx, claim.DeepCopy(), client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) { // conflict: another claim has the name now
		return fmt.Errorf("delete NodeClaim %s: %w", claim.Name, err)
	}
	l.mu.Lock()
	l.deleted[uid] = l.now()
	l.mu.Unlock()
	l.o.World.ObserveDeletion(claim)
	l.metrics.ClaimDisrupted(claim, why)
	if l.o.Deleting != nil {
		l.o.Deleting(claim, why)
	}
	l.o.Log.Info("NodeClaim is deleted", "nodeclaim", claim.Name, "why", why)
	return nil
}

// deletionShown is how long it may take until the cache shows a deletion.
const deletionShown = 5 * time.Second

// deletedJustNow reports whether a claim's end was asked for so lately that the cache need not show it.
func (l *Lifecycle) deletedJustNow(claim *karpv1.NodeClaim) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, asked := l.deleted[claim.UID]
	return asked && l.now().Sub(at) < deletionShown
}

// dropFinalizer lets a claim go for good.
func (l *Lifecycle) dropFinalizer(ctx context.Context, claim *karpv1.NodeClaim) error {
	before := claim.DeepCopy()
	claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(f string) bool { return f == karpv1.TerminationFinalizer })
	err := l.o.Client.Patch(ctx, claim, locked(before))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("release NodeClaim %s: %w", claim.Name, err)
	}
	if len(claim.Finalizers) == 0 {
		l.o.World.ForgetClaim(before)
	} else {
		l.observe(claim)
	}
	l.metrics.ClaimTerminated(before, l.now())
	l.forget(before.UID, machineID(before.Status.ProviderID))
	return nil
}
