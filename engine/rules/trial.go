package rules

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// bind is a change that a trial made: n pods more of a shape on a node.
type bind struct {
	shape, node int
	n           int32
}

// Try lets f bind and unbind pods, and takes all of it back. f adds no nodes, and tries nothing itself.
func (st *State) Try(f func()) {
	st.trail, st.trying = st.trail[:0], true
	f()
	st.trying = false
	for _, b := range slices.Backward(st.trail) {
		st.move(b.shape, b.node, -b.n)
	}
}

// Exchange puts another version of a machine in its place: with the same name, labels, taints, state and pods that are Leaving, but
// other pods beside them, or Deleting. What was there is in n afterwards, so that the same call takes it back. It changes the
// State's snapshot, whose Nodes must be nobody else's. Of pods that were bound there since then it knows no more.
func (st *State) Swap(node int, n *model.Node) {
	at := st.node(node)
	st.countOn(node, at.Pods, -1)
	*at, *n = *n, *at
	st.countOn(node, at.Pods, 1)
	st.capacity.reset(node)
	st.nodeRules.forget(node)
}

// countOn counts pods of a node, n times each, in all that counts pods already.
func (st *State) countOn(node int, pods []model.BoundPod, n int32) {
	if !st.pods.where.gathered {
		return // who is there is looked at when somebody asks
	}
	for i := range pods {
		if p := &pods[i]; st.pods.counts(p) && !p.Terminating {
			st.pods.where.remember(p.Shape, run{int32(node), n})
			st.record(p.Shape, node, n, false)
		}
	}
}
