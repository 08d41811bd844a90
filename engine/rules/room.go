package rules

import (
	"math"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// room is what can still be requested of each node, by resource. Only resources that some shape asks for that was looked at
// have a column: those of other resources are as the snapshot says.
type room [model.MaxResources][]int64

// open makes the columns of what a shape asks.
func (st *State) open(asks []ask) {
	var fresh []int
	for i := range asks {
		if r := asks[i].resource; st.room[r] == nil {
			st.room[r] = make([]int64, st.Nodes())
			fresh = append(fresh, r)
		}
	}
	if st.from != nil && len(st.joined) == 0 {
		st.from.open(asks)
		for _, r := range fresh {
			copy(st.room[r], st.from.room[r])
		}
		return
	}
	if len(fresh) == 0 {
		return
	}
	for node := range st.Nodes() {
		n := st.node(node)
		for _, r := range fresh {
			st.room[r][node] = unused(n, r)
		}
	}
}

// unused is what pods and daemons leave of a resource. What they use beyond the integers leaves as little as can be said.
func unused(n *model.Node, resource int) int64 {
	all, used := n.Allocatable[resource], max(n.Used[resource], 0)
	if all < math.MinInt64+used {
		return math.MinInt64
	}
	return all - used
}

// unbound is what can be requested of a resource of a node as the snapshot says. A State that others are made from has nothing bound.
func (st *State) unbound(node, resource int) int64 {
	if st.from != nil && st.from.room[resource] != nil {
		return st.from.room[resource][node]
	}
	return unused(st.node(node), resource)
}

// hasRoom reports whether the node has what a shape asks.
func (st *State) hasRoom(asks []ask, node int) bool {
	for i := range asks {
		if asks[i].amount > st.room[asks[i].resource][node] {
			return false
		}
	}
	return true
}

// HasRoom reports whether the node has room for a pod of the shape now, whatever else the pod wants.
func (st *State) HasRoom(shape, node int) bool {
	return st.known(shape, node) && st.hasRoom(st.shape(shape).asks, node)
}

// WithRoom keeps those of the nodes that have room for the request now.
func (st *State) WithRoom(nodes []int, request model.Resources) []int {
	asks := asksOf(request)
	st.open(asks)
	return slices.DeleteFunc(nodes, func(node int) bool { return !st.hasRoom(asks, node) })
}

func asksOf(request model.Resources) (asks []ask) {
	for r, amount := range request {
		if amount > 0 {
			asks = append(asks, ask{r, amount})
		}
	}
	return asks
}

// take takes n times what a shape asks out of a node's room.
func (st *State) take(asks []ask, node int, n int64) {
	for i := range asks {
		st.room[asks[i].resource][node] -= n * asks[i].amount
	}
}

// Free is what can still be requested of a node.
func (st *State) Free(node int) model.Resources {
	var out model.Resources
	for r := range out {
		out[r] = st.FreeOf(node, r)
	}
	return out
}

// FreeOf is what can still be requested of one resource of a node.
func (st *State) FreeOf(node, resource int) int64 {
	if st.room[resource] != nil {
		return st.room[resource][node]
	}
	return unused(st.node(node), resource)
}
