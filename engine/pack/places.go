package pack

import (
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// Places answers again and again where pods would find room in a cluster: what is known of its machines is found out once. It is
// not safe for concurrent use.
type Places struct {
	s     *model.Snapshot
	state *rules.State
	order *rules.Order
}

// NewPlaces prepares a cluster in which no pod waits. Nobody else may hold the snapshot's Nodes: see Exchange.
func NewPlaces(s *model.Snapshot) *Places {
	x := &Places{s: s, state: rules.NewState(s)}
	x.order = x.state.Order(nodesThatTakePods(s))
	return x
}

// Exchange puts another version of a machine in its place: see rules.State.Exchange. A machine that takes pods may be exchanged for
// one that takes none, and back.
func (x *Places) Exchange(node int, n *model.Node) { x.state.Exchange(node, n) }

// Change is Exchange for a machine that still takes pods, if it did.
func (x *Places) Change(node int, n *model.Node) {
	x.state.Exchange(node, n)
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

// State is the cluster's. What is bound in it must be taken back: see rules.State.Try.
func (x *Places) State() *rules.State { return x.state }
