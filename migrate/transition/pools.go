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
		return slices.Contains(s.Before, c.Name) || isMicroVM(&c) || isOfNodeGroup(&c)
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

// launchTime is how long a controller may take to launch nodes for pods that must move.
const launchTime = 15 * time.Second

// awaitNodes waits until the pools have launched nodes for the pods on the groups' nodes since the drain began, and
// all nodes of the migration are ready: no pod is evicted before there is room for it. If the pools launch nothing
// within launchTime, they have room, or the drain will show that they do not.
func (t *Transition) awaitNodes(ctx context.Context, s *State, pods int) error {
	if pods == 0 {
		return nil
	}
	t.Say("%d pods are to move", pods)
	until := t.Clock.Now().Add(launchTime)
	return t.poll(ctx, "nodes of the pools", func() (string, error) {
		var claims karpv1.NodeClaimList
		if err := t.client.List(ctx, &claims); err != nil {
			return "", fmt.Errorf("list NodeClaims: %w", err)
		}
		ours, ready, launched := 0, 0, false
		for i := range claims.Items {
			c := &claims.Items[i]
			if slices.Contains(s.Before, c.Name) || isMicroVM(c) {
				continue
			}
			ours++
			launched = launched || !c.CreationTimestamp.Before(s.DrainingSince)
			if c.StatusConditions().IsTrue(karpv1.ConditionTypeInitialized) {
				ready++
			}
		}
		if ours == ready && (launched || t.Clock.Now().After(until)) {
			return "", nil
		}
		return fmt.Sprintf("%d of %d are ready", ready, ours), nil
	})
}
