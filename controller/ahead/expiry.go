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

// watchExpiry has the queue work on a NodeClaim that came.
func (c *Controller) watchExpiry(old, now client.Object) {
	if old == nil {
		c.queue.Add(client.ObjectKeyFromObject(now).String())
	}
}

// expire has the pods of a NodeClaim's node get their next nodes before it expires, and returns when to call it again,
// zero if never.
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

// stepExpiry marks a NodeClaim whose node is removed so soon that the next nodes for its pods have to be launched. A
// NodeClaim that expires is deleted whether or not its pods have another place (karpenter.sh/docs/concepts/disruption).
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

// expiryLead returns how long before a node expires the next ones for its pods are launched; 0 if waiting costs less
// than idle nodes.
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
