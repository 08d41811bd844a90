package nodeclaim

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/catalog"
	"github.com/nodeless/nodeless/controller/cluster"
	"github.com/nodeless/nodeless/controller/metrics"
	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/internal/kit/events"
	"github.com/nodeless/nodeless/internal/kit/mutationcache"
)

// objects is shared by all parts: it reads and writes NodeClaims and Nodes, records events and tells the time. It is
// safe for concurrent use.
type objects struct {
	cache    cache.Cache
	client   client.Client // bypasses the cache
	cluster  *cluster.State
	recorder events.Recorder
	clock    clock.Clock
	log      *slog.Logger
	metrics  *metrics.Counters
	deleting func(claim *karpv1.NodeClaim, why string) // may be nil
	state    *pendingState

	wroteClaims mutationcache.Cache[*karpv1.NodeClaim]
	wroteNodes  mutationcache.Cache[*corev1.Node]
}

func (o *objects) now() time.Time { return o.clock.Now() }

// until returns the time left until d after since; a result that is not positive means that it has passed.
func (o *objects) until(since time.Time, d time.Duration) time.Duration {
	return since.Add(d).Sub(o.now())
}

// Fields that the cache is indexed by.
const (
	byClaimProvider = "status.providerID"
	byNodeProvider  = "spec.providerID"
	byNodeName      = "spec.nodeName"
)

// index indexes the cache by those fields.
func (o *objects) index(ctx context.Context) error {
	for _, i := range []struct {
		object client.Object
		field  string
		value  func(client.Object) string
	}{
		{
			&karpv1.NodeClaim{}, byClaimProvider,
			func(o client.Object) string { return o.(*karpv1.NodeClaim).Status.ProviderID },
		},
		{&corev1.Node{}, byNodeProvider, func(o client.Object) string { return o.(*corev1.Node).Spec.ProviderID }},
		{&corev1.Pod{}, byNodeName, func(o client.Object) string { return o.(*corev1.Pod).Spec.NodeName }},
		{&storagev1.VolumeAttachment{}, byNodeName, func(o client.Object) string {
			return o.(*storagev1.VolumeAttachment).Spec.NodeName
		}},
	} {
		err := o.cache.IndexField(ctx, i.object, i.field, func(o client.Object) []string {
			if v := i.value(o); v != "" {
				return []string{v}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("index %T: %w", i.object, err)
		}
	}
	return nil
}

// readClaim returns a copy of the newest known state of a claim, or nil if there is none.
func (o *objects) readClaim(ctx context.Context, name string) (*karpv1.NodeClaim, error) {
	claim := &karpv1.NodeClaim{}
	if err := o.cache.Get(ctx, client.ObjectKey{Name: name}, claim); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("read NodeClaim %s: %w", name, err)
	}
	return o.wroteClaims.Newest(claim).DeepCopy(), nil
}

// claimsOf returns the claims with a provider ID. They are shared with the cache: do not change them.
func (o *objects) claimsOf(ctx context.Context, providerID string) ([]karpv1.NodeClaim, error) {
	if providerID == "" {
		return nil, nil
	}
	var list karpv1.NodeClaimList
	at := client.MatchingFields{byClaimProvider: providerID}
	if err := o.cache.List(ctx, &list, at, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("find NodeClaim of %s: %w", providerID, err)
	}
	return list.Items, nil
}

// nodesOf returns copies of the newest known states of the Nodes with a provider ID.
func (o *objects) nodesOf(ctx context.Context, providerID string) ([]*corev1.Node, error) {
	if providerID == "" {
		return nil, nil
	}
	var list corev1.NodeList
	at := client.MatchingFields{byNodeProvider: providerID}
	if err := o.cache.List(ctx, &list, at, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("find Node of %s: %w", providerID, err)
	}
	out := make([]*corev1.Node, len(list.Items))
	for i := range list.Items {
		out[i] = o.wroteNodes.Newest(&list.Items[i]).DeepCopy()
	}
	return out, nil
}

func equal(a, b any) bool { return equality.Semantic.DeepEqual(a, b) }

// locked returns a merge patch that fails if the object has changed since it was read. A merge replaces whole lists.
func locked(from client.Object) client.Patch {
	return client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{})
}

// writeMeta writes a claim's labels, annotations and finalizers if they changed. The claim becomes the server's
// response, but keeps its status.
func (o *objects) writeMeta(ctx context.Context, before, claim *karpv1.NodeClaim) error {
	if equal(before.ObjectMeta, claim.ObjectMeta) {
		return nil
	}
	status := claim.Status.DeepCopy()
	if err := o.client.Patch(ctx, claim, locked(before)); err != nil {
		return fmt.Errorf("update NodeClaim %s: %w", claim.Name, err)
	}
	o.observe(claim)
	before.ObjectMeta = *claim.ObjectMeta.DeepCopy()
	claim.Status = *status
	return nil
}

// writeStatus writes a claim's status if it changed.
func (o *objects) writeStatus(ctx context.Context, before, claim *karpv1.NodeClaim) error {
	if equal(before.Status, claim.Status) {
		return nil
	}
	if err := o.client.Status().Patch(ctx, claim, locked(before)); err != nil {
		return fmt.Errorf("update status of NodeClaim %s: %w", claim.Name, err)
	}
	o.observe(claim)
	return nil
}

// annotate sets one annotation of a claim, regardless of other changes to it. A claim that is gone is no error.
func (o *objects) annotate(ctx context.Context, claim *karpv1.NodeClaim, key, value string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, claim.UID, key, value)
	annotated := claim.DeepCopy()
	if err := o.client.Patch(ctx, annotated, client.RawPatch(types.MergePatchType, patch)); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("annotate NodeClaim %s with %s: %w", claim.Name, key, err)
	}
	o.observe(annotated)
	return nil
}

// observe makes a written claim known before the cache shows it.
func (o *objects) observe(claim *karpv1.NodeClaim) {
	kept := claim.DeepCopy()
	o.wroteClaims.Mutated(kept)
	o.cluster.ObserveClaim(kept)
}

// writeNode patches a Node if it changed. Others write its lists, too: if one of these changed, the patch is locked.
func (o *objects) writeNode(ctx context.Context, before, node *corev1.Node) error {
	if equal(before, node) {
		return nil
	}
	patch := client.MergeFrom(before)
	if !equal(before.Spec.Taints, node.Spec.Taints) || !equal(before.Finalizers, node.Finalizers) ||
		!equal(before.OwnerReferences, node.OwnerReferences) {
		patch = locked(before)
	}
	if err := o.client.Patch(ctx, node, patch); err != nil {
		return fmt.Errorf("update Node %s: %w", node.Name, err)
	}
	o.wroteNodes.Mutated(node.DeepCopy())
	return nil
}

// delete deletes this very object, not another one of the same name. An object that is gone is no error.
func (o *objects) delete(ctx context.Context, object client.Object) error {
	uid := object.GetUID()
	err := o.client.Delete(ctx, object.DeepCopyObject().(client.Object), client.Preconditions{UID: &uid})
	return client.IgnoreNotFound(err)
}

// deleteClaim requests the deletion of a claim, unless it has been requested before.
func (o *objects) deleteClaim(ctx context.Context, claim *karpv1.NodeClaim, why string) error {
	if claim.DeletionTimestamp != nil || o.deletedJustNow(claim) {
		return nil
	}
	if err := o.delete(ctx, claim); err != nil && !apierrors.IsConflict(err) { // conflict: another claim has the name now
		return fmt.Errorf("delete NodeClaim %s: %w", claim.Name, err)
	}
	o.state.claims.update(claim.UID, func(s *claimState) { s.deletedAt = o.now() })
	o.cluster.ObserveDeletion(claim)
	o.metrics.ClaimDisrupted(claim, why)
	if o.deleting != nil {
		o.deleting(claim, why)
	}
	o.log.Info("NodeClaim deleted", "nodeclaim", claim.Name, "reason", why)
	return nil
}

// deletionShown is how long the cache may take to show a deletion.
const deletionShown = 5 * time.Second

// deletedJustNow reports whether a claim's deletion was requested so recently that the cache may not show it.
func (o *objects) deletedJustNow(claim *karpv1.NodeClaim) bool {
	at := o.state.claims.get(claim.UID).deletedAt
	return !at.IsZero() && o.until(at, deletionShown) > 0
}

// releaseClaim removes the finalizer of a claim whose instance is gone.
func (o *objects) releaseClaim(ctx context.Context, claim *karpv1.NodeClaim) error {
	before := claim.DeepCopy()
	controllerutil.RemoveFinalizer(claim, karpv1.TerminationFinalizer)
	if err := o.client.Patch(ctx, claim, locked(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("release NodeClaim %s: %w", claim.Name, err)
	}
	if len(claim.Finalizers) == 0 {
		o.cluster.ForgetClaim(before)
	} else {
		o.observe(claim)
	}
	o.metrics.ClaimTerminated(before, o.now())
	o.state.forgetClaim(before.UID, catalog.InstanceID(before.Status.ProviderID))
	return nil
}

// releaseNode removes the finalizer of a Node whose instance is gone.
func (o *objects) releaseNode(ctx context.Context, node *corev1.Node) error {
	before := node.DeepCopy()
	controllerutil.RemoveFinalizer(node, karpv1.TerminationFinalizer)
	if err := o.client.Patch(ctx, node, locked(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("release Node %s: %w", node.Name, err)
	}
	o.metrics.NodeTerminated(before, o.now())
	o.log.Info("Node removed", "node", node.Name)
	return nil
}

// event records an event on a claim and, if there is one, on its Node.
func (o *objects) event(claim *karpv1.NodeClaim, node *corev1.Node, kind, reason, message string) {
	o.recorder.Event(claim, kind, reason, message)
	if node != nil {
		o.recorder.Event(node, kind, reason, message)
	}
}
