package nodeclaim

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nodeReturns is how long the Node of a registered machine may be missing: a kubelet that starts again makes it anew.
const nodeReturns = 30 * time.Second

// missing ends a registered claim whose Node was taken away past its finalizer: the machine is there, but it is no place for
// pods, while plans still believe that it becomes one. Whether nobody led when the Node went makes no difference.
func (l *Lifecycle) missing(ctx context.Context, t *turn) error {
	l.mu.Lock()
	since := l.missed[t.claim.UID]
	if since.IsZero() {
		since = l.now()
		l.missed[t.claim.UID] = since
	}
	l.mu.Unlock()
	if left := since.Add(nodeReturns).Sub(l.now()); left > 0 {
		t.in(left)
		return nil
	}
	err := l.o.Client.Get(ctx, client.ObjectKey{Name: t.claim.Status.NodeName}, &corev1.Node{}) // the cache may be late
	switch {
	case apierrors.IsNotFound(err):
		return l.deleteClaim(ctx, t.claim, "node_missing")
	case err != nil:
		return fmt.Errorf("look for Node %s of NodeClaim %s: %w", t.claim.Status.NodeName, t.claim.Name, err)
	}
	t.in(nodeReturns)
	return nil
}

// found forgets that a claim's Node was missing.
func (l *Lifecycle) found(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.missed, uid)
}
