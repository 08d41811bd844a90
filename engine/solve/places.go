package solve

import (
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// Places answers again and again what becomes of pods in a cluster: what is known of its machines and pools is found out once. It is
// not safe for concurrent use, and all its policies must count offerings alike.
type Places struct {
	s     *model.Snapshot
	pods  *model.Snapshot // the same for pods: see forPods
	state *rules.State
	order *rules.Order
	views []*rules.View // nil until machines are to be launched

	screen *rules.Screen // of views; nil until it is asked for

	idea  bool        // the plan that is being made is one of which nobody asks how good it is
	below model.Price // see WhatIf, of that plan

	real, effective *floor // nil until they are asked for: see Dearer
}

// NewPlaces prepares a cluster in which no pod waits. Nobody else may hold the snapshot's Nodes: see Exchange.
func NewPlaces(s *model.Snapshot) *Places { return placesIn(s, forPods(s)) }

func placesIn(s, pods *model.Snapshot) *Places {
	x := &Places{s: s, pods: pods, state: rules.NewState(s)}
	x.order = x.state.Order(nodesThatTakePods(s))
	x.state.ByReadiness() // while all machines that may take pods do
	return x
}

// Exchange puts another version of a machine in its place: see rules.State.Exchange. A machine that takes pods may be exchanged for
// one that takes none, and back.
func (x *Places) Exchange(node int, n *model.Node) { x.state.Swap(node, n) }

// Change is Exchange for a machine that still takes pods, if it did.
func (x *Places) Change(node int, n *model.Node) {
	x.state.Swap(node, n)
	x.order.Changed(node)
}

// Of are the places of pods, as Placements gives them for the cluster with these pods Pending.
func (x *Places) Of(pending []model.Pod, policy *model.Policy) []model.Placement {
	s := *x.s
	s.Pending = pending
	p := &problem{s: &s, policy: policy, state: x.state, order: x.order}
	x.state.Try(func() {
		p.group()
		p.place()
	})
	p.sort()
	return p.plan.Placements
}

// ProvisionPods is that of the cluster with these pods Pending.
func (x *Places) ProvisionPods(pending []model.Pod, policy model.Policy) model.Plan {
	s := *x.pods
	s.Pending = pending
	return provisionPods(&s, policy, x).Explained()
}

// WhatIf is ProvisionPods where nobody asks how good the plan is, and one that counts for as much as below, or more, is of no use: then
// it need not be the best. 0 = any is.
func (x *Places) WhatIf(pending []model.Pod, policy model.Policy, below model.Price) model.Plan {
	x.idea, x.below = true, below
	defer func() { x.idea, x.below = false, 0 }()
	return x.ProvisionPods(pending, policy)
}

// State is the cluster's. What is bound in it must be taken back: see rules.State.Try.
func (x *Places) State() *rules.State { return x.state }

// viewsOf are the pools prepared for a plan.
func (x *Places) viewsOf(s *model.Snapshot, policy *model.Policy) []*rules.View {
	if x.views != nil {
		return x.views
	}
	var out []*rules.View
	for i := range s.Pools {
		v := rules.NewView(&s.Pools[i], s.Daemons)
		v.ApplyPolicy(policy)
		out = append(out, v)
	}
	x.views = out
	return out
}

// screenOf is the screen of the views before anything is planned.
func (x *Places) screenOf(views []*rules.View, rooms []rules.Headroom, policy *model.Policy) *rules.Screen {
	if x.screen == nil {
		x.screen = rules.NewScreen(views, rooms, policy)
	}
	return x.screen
}
