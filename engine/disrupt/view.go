package disrupt

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/solve"
)

// view is the world as plans with some destinations see it. What is known of it serves all plans; one that takes machines away changes
// it for as long as it is made.
type view struct {
	s      *model.Snapshot // its Nodes are its own
	places *solve.Places   // nil until places are looked for
	shares *ranking        // see byFreeShare; nil until it is asked for
}

// look makes what is known of the view's machines.
func (v *view) look() *solve.Places {
	if v.places == nil {
		v.places = solve.NewPlaces(v.s)
	}
	return v.places
}

// byFreeShare are the view's machines by what is free of them.
func (v *view) byFreeShare() *ranking {
	if v.shares == nil {
		v.shares = byFreeShare(v.look().State())
	}
	return v.shares
}

// exchange puts another version of a machine in its place; what was there is in n afterwards.
func (v *view) exchange(at int, n *model.Node) {
	if v.places == nil {
		v.s.Nodes[at], *n = *n, v.s.Nodes[at]
		return
	}
	state := v.places.State()
	if v.shares != nil {
		v.shares.remove(spare{at, freeShare(state, at)})
	}
	v.places.Change(at, n)
	if v.shares != nil && takesPods(state.Node(at)) {
		v.shares.add(spare{at, freeShare(state, at)})
	}
}

// without lets f look for places in the view without the victims, which are Deleting, for their pods that move.
func (v *view) without(victims []*model.Node, f func(places *solve.Places, moving []model.Pod)) {
	v.look()
	var at []int
	for _, n := range victims {
		if i, ok := find(v.s.Nodes, n.Name); ok {
			at = append(at, i)
		}
	}
	slices.Sort(at)
	var moving []model.Pod
	other := make([]model.Node, len(at))
	for k, i := range at {
		other[k] = v.s.Nodes[i]
		moving = other[k].Drain(v.s.Shapes, moving)
		v.places.Exchange(i, &other[k])
	}
	model.SortPending(moving)
	f(v.places, moving)
	for k, i := range at {
		v.places.Exchange(i, &other[k])
	}
}
