package transition

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/nodeless/nodeless/api/v1alpha1"
)

// closePools keeps the pools of the migration from launching: it sets a CPU limit of 0 or, for static pools, 0
// replicas. It first saves the previous values in the state.
func (t *Transition) closePools(ctx context.Context, s *State) error {
	var pools karpv1.NodePoolList
	if err := t.client.List(ctx, &pools); err != nil {
		return fmt.Errorf("list NodePools: %w", err)
	}
	for i := range s.Pools {
		k := slices.IndexFunc(pools.Items, func(p karpv1.NodePool) bool { return p.Name == s.Pools[i].Name })
		if k < 0 || s.Pools[i].Closed != nil {
			continue
		}
		p := &pools.Items[k]
		s.Pools[i].Closed = &PoolBefore{Limits: p.Spec.Limits, Replicas: p.Spec.Replicas}
	}
	if err := t.save(ctx, s); err != nil {
		return err
	}
	for _, pool := range s.Pools {
		if pool.Closed == nil {
			continue
		}
		err := t.changePool(ctx, pool.Name, func(p *karpv1.NodePool) {
			if p.Spec.Replicas != nil {
				p.Spec.Replicas = new(int64)
				return
			}
			p.Spec.Limits = karpv1.Limits{corev1.ResourceCPU: resource.MustParse("0")}
		})
		if err != nil {
			return err
		}
		t.Say("NodePool %s launches nothing any more", pool.Name)
	}
	return nil
}

// openPools restores the limits and replicas of closed pools.
func (t *Transition) openPools(ctx context.Context, s *State) error {
	for i := range s.Pools {
		before := s.Pools[i].Closed
		if before == nil {
			continue
		}
		err := t.changePool(ctx, s.Pools[i].Name, func(p *karpv1.NodePool) {
			p.Spec.Limits, p.Spec.Replicas = before.Limits, before.Replicas
		})
		if err != nil {
			return err
		}
		s.Pools[i].Closed = nil
	}
	return nil
}

func (t *Transition) changePool(ctx context.Context, name string, change func(*karpv1.NodePool)) error {
	p := &karpv1.NodePool{}
	if err := t.client.Get(ctx, client.ObjectKey{Name: name}, p); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := p.DeepCopy()
	change(p)
	if err := t.client.Patch(ctx, p, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("update NodePool %s: %w", name, err)
	}
	return nil
}

// emptyPools deletes the pools' NodeClaims created during the migration, one by one: their controller evicts the pods
// as budgets allow, and the groups' nodes take them. MicroVMs and the instances of NodeGroups stay.
func (t *Transition) emptyPools(ctx context.Context, s *State) error {
	var claims karpv1.NodeClaimList
	if err := t.client.List(ctx, &claims); err != nil {
		return fmt.Errorf("list NodeClaims: %w", err)
	}
	ours := slices.DeleteFunc(claims.Items, func(c karpv1.NodeClaim) bool {
		return slices.Contains(s.Before, c.Name) || isMicroVM(&c) || isOfNodeGroup(&c) || isOfOthers(c.Spec.NodeClassRef)
	})
	for i := range ours {
		c, begun := &ours[i], t.now()
		if err := t.client.Delete(ctx, c); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete NodeClaim %s: %w", c.Name, err)
		}
		err := t.poll(ctx, "removal of node "+c.Status.NodeName, func() (string, error) {
			err := t.client.Get(ctx, client.ObjectKey{Name: c.Name}, &karpv1.NodeClaim{})
			if err == nil {
				return "NodeClaim " + c.Name + " is still there", nil
			}
			return "", client.IgnoreNotFound(err)
		})
		if err == nil {
			err = t.settled(ctx, begun)
		}
		if err != nil {
			return err
		}
		t.Say("[%d/%d] NodeClaim %s: removed", i+1, len(ours), c.Name)
	}
	return nil
}

// staticProblem says why a pool with spec.replicas is not Ready, such as for lack of a feature gate; "" for others.
// Nobody would notice otherwise: no pod waits for its nodes.
func staticProblem(p *karpv1.NodePool) string {
	if p.Spec.Replicas == nil || *p.Spec.Replicas == 0 {
		return ""
	}
	for _, c := range p.StatusConditions().List() {
		if c.IsFalse() && c.Message != "" {
			return c.Message
		}
	}
	return "its controller has not judged it yet; try again in a minute"
}

// isOfOthers reports whether a node class is another controller's, such as that of EKS Auto Mode.
func isOfOthers(ref *karpv1.NodeClassReference) bool {
	return ref != nil && ref.Group != "karpenter.k8s.aws" && ref.Group != v1alpha1.GroupVersion.Group
}

// isOfNodeGroup reports whether a NodeClaim is an instance of a group that stays.
func isOfNodeGroup(c *karpv1.NodeClaim) bool {
	ref := c.Spec.NodeClassRef
	return ref != nil && v1alpha1.IsNodeGroup(ref.Group, ref.Kind)
}

// isMicroVM reports whether a NodeClaim is the microVM of one pod.
func isMicroVM(c *karpv1.NodeClaim) bool {
	ref := c.Spec.NodeClassRef
	return ref != nil && ref.Group == v1alpha1.GroupVersion.Group && !isOfNodeGroup(c)
}

// launchTime is how long a controller may take to launch the first node for pods that must move.
const launchTime = time.Minute

// awaitNodes waits until all nodes of the migration are ready, and the pools have launched some since the drain began
// unless launches, the number of nodes that the pods need, is 0: no pod is evicted before there is room for it.
func (t *Transition) awaitNodes(ctx context.Context, s *State, launches int) error {
	until := t.Clock.Now().Add(launchTime)
	return t.poll(ctx, "nodes of the pools", func() (string, error) {
		var claims karpv1.NodeClaimList
		if err := t.client.List(ctx, &claims); err != nil {
			return "", fmt.Errorf("list NodeClaims: %w", err)
		}
		ours, ready, launched := 0, 0, false
		for i := range claims.Items {
			c := &claims.Items[i]
			if isMicroVM(c) || isOfOthers(c.Spec.NodeClassRef) || slices.Contains(s.Before, c.Name) &&
				!slices.ContainsFunc(s.Pools, func(x Pool) bool { return x.Name == c.Labels[karpv1.NodePoolLabelKey] }) {
				continue
			}
			ours++
			launched = launched || !c.CreationTimestamp.Before(s.DrainingSince)
			if c.StatusConditions().IsTrue(karpv1.ConditionTypeInitialized) {
				ready++
			}
		}
		switch {
		case ours == ready && (launched || launches == 0):
			return "", nil
		case ours == ready && t.Clock.Now().After(until):
			need := "nodes"
			if launches > 0 {
				need = fmt.Sprintf("%d more nodes", launches)
			}
			return "", t.unlessForced(fmt.Errorf("the pods need %s, but the NodePools have launched none within %s: "+
				"see whether the controller runs and what it logs; no pod was evicted now", need, launchTime))
		}
		return fmt.Sprintf("%d of %d are ready", ready, ours), nil
	})
}
