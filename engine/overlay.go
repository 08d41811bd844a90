package engine

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/solve"
)

// overlay is the projected cluster as seen by plans with some destinations. All these plans share what it computes. A
// plan that removes nodes changes the overlay while it is made.
type overlay struct {
	s      *model.Snapshot // its Nodes belong to the overlay
	places *solve.Cluster  // nil until needed
	shares *ranking        // see byFreeShare; nil until needed
	memory *solve.Memory
}

// look returns the cluster to place pods on, computing it on first use.
func (v *overlay) look() *solve.Cluster {
	if v.places == nil {
		v.places = solve.NewCluster(v.s, v.memory)
	}
	return v.places
}

// byFreeShare returns the nodes by free share.
func (v *overlay) byFreeShare() *ranking {
	if v.shares == nil {
		v.shares = byFreeShare(v.look().State())
	}
	return v.shares
}

// exchange swaps in another version of a node; afterwards n holds the previous one.
func (v *overlay) exchange(at int, n *model.Node) {
	if v.places == nil {
		v.s.Nodes[at], *n = *n, v.s.Nodes[at]
		return
	}
	state := v.places.State()
	if v.shares != nil {
		v.shares.remove(spare{at, freeShare(state, at)})
	}
	v.places.UpdateNode(at, n)
	if v.shares != nil && takesPods(state.Node(at)) {
		v.shares.add(spare{at, freeShare(state, at)})
	}
}

// setSubnets replaces the subnets with what launches leave of them.
func (v *overlay) setSubnets(subnets []model.Subnet) {
	v.s.Subnets = subnets
	if v.places != nil {
		v.places.SetSubnets(subnets)
	}
}

// without marks the victims Deleting, calls f with the cluster and the pods that must leave them, and restores the
// victims.
func (v *overlay) without(victims []*model.Node, f func(places *solve.Cluster, moving []model.Pod)) {
	v.look()
	var at []int
	for _, n := range victims {
		if i := v.s.NodeIndex(n.Name); i >= 0 {
			at = append(at, i)
		}
	}
	slices.Sort(at)
	var moving []model.Pod
	other := make([]model.Node, len(at))
	for k, i := range at {
		other[k] = v.s.Nodes[i]
		moving = other[k].Drain(v.s.Shapes, moving)
		v.places.ReplaceNode(i, &other[k])
	}
	model.SortPending(moving)
	f(v.places, moving)
	for k, i := range at {
		v.places.ReplaceNode(i, &other[k])
	}
}
