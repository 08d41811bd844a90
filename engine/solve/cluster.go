package solve

import (
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// Cluster plans repeatedly for pods in one cluster. What it computes about nodes and pools serves all plans. It is not
// safe for concurrent use, and all its policies must have the same effective prices.
type Cluster struct {
	s     *model.Snapshot
	pods  *model.Snapshot // the same for pods: see withoutStaticPools
	state *rules.State
	order *rules.Order
	views []*rules.View // nil until something has to be launched

	screen *rules.Screen // of views; nil until it is needed

	whatIf bool        // the current plan is a what-if, whose bound is not used
	cutoff model.Price // of that plan: see WhatIf
	memory *Memory     // of what-ifs; nil = none

	floor *priceFloor // nil until it is needed: see CostsAtLeast
}

// NewCluster prepares a cluster without pending pods. The snapshot's Nodes must belong to the caller alone: see
// ReplaceNode. Its what-ifs use the Memory, unless that is nil.
func NewCluster(s *model.Snapshot, m *Memory) *Cluster {
	c := newCluster(s, withoutStaticPools(s))
	c.memory = m
	return c
}

func newCluster(s, pods *model.Snapshot) *Cluster {
	c := &Cluster{s: s, pods: pods, state: rules.NewState(s)}
	c.order = c.state.Order(nodesThatTakePods(s))
	c.state.ByReadiness() // now, while all nodes that may take pods do
	return c
}

// ReplaceNode replaces a node with another version of it: see rules.State.Swap. A node that takes pods may be
// replaced with one that takes none, and back.
func (c *Cluster) ReplaceNode(node int, n *model.Node) { c.state.Swap(node, n) }

// UpdateNode is ReplaceNode for a node that keeps taking pods if it did before.
func (c *Cluster) UpdateNode(node int, n *model.Node) {
	c.state.Swap(node, n)
	c.order.Changed(node)
}

// Placements is the function Placements for the cluster with these pods pending.
func (c *Cluster) Placements(pending []model.Pod, policy *model.Policy) []model.Placement {
	s := *c.s
	s.Pending = pending
	p := &problem{s: &s, policy: policy, state: c.state, order: c.order}
	c.state.Try(func() {
		p.groupPods()
		p.placer().placeAll()
	})
	sortPlan(&p.plan)
	return p.plan.Placements
}

// ProvisionPods is the function ProvisionPods for the cluster with these pods pending.
func (c *Cluster) ProvisionPods(pending []model.Pod, policy model.Policy) model.Plan {
	s := *c.pods
	s.Pending = pending
	return provisionPods(&s, policy, c).Explained()
}

// WhatIf is ProvisionPods without a lower bound. A plan whose effective price is cutoff or more is useless to the
// caller, so it need not be the best; 0 means no cutoff.
func (c *Cluster) WhatIf(pending []model.Pod, policy model.Policy, cutoff model.Price) model.Plan {
	c.whatIf, c.cutoff = true, cutoff
	defer func() { c.whatIf, c.cutoff = false, 0 }()
	return c.ProvisionPods(pending, policy)
}

// SetSubnets replaces the subnets, after other plans' launches, with what these leave of them.
func (c *Cluster) SetSubnets(subnets []model.Subnet) {
	c.s.Subnets, c.pods.Subnets = subnets, subnets
	for _, v := range c.views {
		if v.ApplySubnets(subnets) {
			c.screen, c.floor = nil, nil
		}
	}
}

// State returns the cluster's state. Callers must undo what they bind in it: see rules.State.Try.
func (c *Cluster) State() *rules.State { return c.state }

// viewsOf returns the pools prepared for a plan.
func (c *Cluster) viewsOf(s *model.Snapshot, policy *model.Policy) []*rules.View {
	for i := len(c.views); i < len(s.Pools); i++ {
		v := rules.NewView(&s.Pools[i], s.Daemons)
		v.ApplyPolicy(policy)
		v.ApplySubnets(s.Subnets)
		c.views = append(c.views, v)
	}
	return c.views
}

// screenOf returns the screen of the views before anything is planned.
func (c *Cluster) screenOf(m *market) *rules.Screen {
	if c.screen == nil {
		c.screen = rules.NewScreen(m.views, m.rooms)
	}
	return c.screen
}
