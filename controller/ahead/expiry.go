package ahead

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// watchExpiry queues a new NodeClaim once this process leads. Until then nothing empties the queue, and a long-running
// standby would accumulate the name of every NodeClaim that ever existed. resume reads the existing ones.
func (c *Controller) watchExpiry(old, now client.Object) {
	if old == nil && c.leading.Load() {
		c.queue.Add(client.ObjectKeyFromObject(now).String())
	}
}

// resume queues the existing NodeClaims when this process starts to lead.
func (c *Controller) resume(ctx context.Context) error {
	c.leading.Store(true) // before the list: later ones arrive as events
	var list karpv1.NodeClaimList
	if err := c.o.Cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list NodeClaims: %w", err)
	}
	for i := range list.Items {
		c.watchExpiry(nil, &list.Items[i])
	}
	return nil
}

// expire prepares nodes for the pods of a NodeClaim's node before the NodeClaim expires, and returns when to call it
// again, zero if never.
func (c *Controller) expire(ctx context.Context, name string, now time.Time) (time.Time, error) {
	claim := &karpv1.NodeClaim{}
	switch err := c.o.Cache.Get(ctx, client.ObjectKey{Name: name}, claim); {
	case apierrors.IsNotFound(err):
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, fmt.Errorf("read NodeClaim %s: %w", name, err)
	}
	return c.stepExpiry(claim, now), nil
}

// stepExpiry marks a NodeClaim that expires so soon that nodes for its pods must be launched now. An expired
// NodeClaim is deleted whether or not its pods fit elsewhere (karpenter.sh/docs/concepts/disruption).
func (c *Controller) stepExpiry(claim *karpv1.NodeClaim, now time.Time) time.Time {
	p, age := &c.o.Planner, claim.Spec.ExpireAfter.Duration
	if age == nil || claim.DeletionTimestamp != nil {
		return time.Time{}
	}
	expires := claim.CreationTimestamp.Add(*age)
	p.Boots.Observe(p.State.Claims())
	if begin := expires.Add(-p.Boots.longest() - resolution - slack); now.Before(begin) {
		return begin
	}
	node, known := p.State.NodeOfClaim(claim.Name)
	pool := p.State.NodePool(claim.Labels[karpv1.NodePoolLabelKey])
	if !known || pool == nil || pool.Spec.Replicas != nil || !translate.Ahead(pool) {
		return time.Time{}
	}
	lead := p.expiryLead(&node)
	switch from := expires.Add(-lead); {
	case lead == 0, lead > *age/2: // the next one would hardly outlive it
		return time.Time{}
	case now.Before(from):
		return from
	}
	c.o.Log.Info("the pods of a node that expires get their next nodes", "nodeclaim", claim.Name, "expires", expires,
		"lead", lead)
	p.State.Expiring(claim)
	return time.Time{}
}

// expiryLead returns how long before a node expires nodes for its pods are launched; 0 if waiting costs less than
// idle nodes.
func (p *Planner) expiryLead(n *model.Node) time.Duration {
	pods := 0
	for i := range n.Pods {
		if n.Pods[i].Moves() {
			pods++
		}
	}
	waiting, price := float64(pods)*float64(p.Policy.WaitPrice), float64(p.Policy.Effective(n.Price))
	if waiting <= 0 {
		return 0
	}
	boots := p.Boots.of(n.Pool)
	lead := leadOf(waiting, price, 1, boots)
	if idle, wait := costs(waiting, price, lead, boots); idle >= wait {
		return 0
	}
	return lead
}
