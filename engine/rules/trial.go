package rules

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// bind is a change made during a trial: n more pods of a shape on a node.
type bind struct {
	shape, node int
	n           int32
}

// Try lets f bind and unbind pods and undoes all of it. f must not add nodes or call Try.
func (st *State) Try(f func()) {
	st.trail, st.trying = st.trail[:0], true
	f()
	st.trying = false
	for _, b := range slices.Backward(st.trail) {
		st.move(b.shape, b.node, -b.n)
	}
}

// Swap exchanges a node for another version of it: with the same name, labels, taints, state and Terminating pods,
// but other pods beside them, or Deleting. Afterwards n holds the previous version, so the same call undoes it. It
// changes the State's snapshot, whose Nodes must belong to the State alone, and forgets pods bound to the node since.
func (st *State) Swap(node int, n *model.Node) {
	at := st.node(node)
	st.countOn(node, at.Pods, -1)
	*at, *n = *n, *at
	st.countOn(node, at.Pods, 1)
	st.capacity.reset(node)
	st.nodeRules.forget(node)
}

// countOn counts pods of a node n times, if pods are counted already.
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
