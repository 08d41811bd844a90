package nodeclaim

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// poolOf is the NodePool of a claim, nil if there is none. It must not be modified.
//
// It is read from the cache: the world may hear of a change later than sawPool.
func (l *Lifecycle) poolOf(ctx context.Context, claim *karpv1.NodeClaim) (*karpv1.NodePool, error) {
	name := claim.Labels[karpv1.NodePoolLabelKey]
	if name == "" {
		return nil, nil
	}
	pool := &karpv1.NodePool{}
	err := l.o.Cache.Get(ctx, client.ObjectKey{Name: name}, pool, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read NodePool of NodeClaim %s: %w", claim.Name, err)
	}
	return pool, nil
}

// orphaned ends a claim whose NodePool is gone, or is being deleted together with what it owns. kube-controller-manager's
// garbage collector would do the same, in its own time.
func (l *Lifecycle) orphaned(ctx context.Context, t *turn) (bool, error) {
	owner := slices.IndexFunc(t.claim.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "NodePool" })
	if owner < 0 {
		return true, nil
	}
	ref := t.claim.OwnerReferences[owner]
	if t.pool != nil && keeps(t.pool, ref) {
		return true, nil
	}
	pool := &karpv1.NodePool{} // the cache may be late: ask the API server before something is ended for good
	err := l.o.Client.Get(ctx, client.ObjectKey{Name: ref.Name}, pool)
	switch {
	case err == nil && keeps(pool, ref):
		return true, nil
	case err != nil && !apierrors.IsNotFound(err):
		return false, fmt.Errorf("look for NodePool %s of NodeClaim %s: %w", ref.Name, t.claim.Name, err)
	}
	return false, l.deleteClaim(ctx, t.claim, "nodepool_deleted")
}

// keeps reports whether a pool is the owner that is meant and keeps what it owns. With --cascade=orphan the references
// are gone before the pool is.
func keeps(pool *karpv1.NodePool, ref metav1.OwnerReference) bool {
	return pool.UID == ref.UID && (pool.DeletionTimestamp == nil || !slices.Contains(pool.Finalizers, metav1.FinalizerDeleteDependents))
}
