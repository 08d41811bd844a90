package rules

import (
	"math"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// capacity is what can still be requested of each node. A resource gets a column once a shape that requests it is
// examined; the snapshot has the other values.
type capacity struct {
	*nodes
	base    *capacity // of the State that this one was forked from, nil if none
	columns [model.MaxResources][]int64
}

// add makes room for a node that was added.
func (free *capacity) add(n *model.Node) {
	for r := range free.columns {
		if free.columns[r] != nil {
			free.columns[r] = append(free.columns[r], unused(n, r))
		}
	}
}

// reset forgets what was bound to the node.
func (free *capacity) reset(node int) {
	for r := range free.columns {
		if free.columns[r] != nil {
			free.columns[r][node] = unused(free.Node(node), r)
		}
	}
}

// open creates the columns of the requested resources.
func (free *capacity) open(asks []ask) {
	var fresh []int
	for i := range asks {
		if r := asks[i].resource; free.columns[r] == nil {
			free.columns[r] = make([]int64, free.Nodes())
			fresh = append(fresh, r)
		}
	}
	if free.base != nil && len(free.added) == 0 {
		free.base.open(asks)
		for _, r := range fresh {
			copy(free.columns[r], free.base.columns[r])
		}
		return
	}
	if len(fresh) == 0 {
		return
	}
	for node := range free.Nodes() {
		n := free.Node(node)
		for _, r := range fresh {
			free.columns[r][node] = unused(n, r)
		}
	}
}

// unused returns what pods and daemons leave of a resource, saturated at the lowest integer.
func unused(n *model.Node, resource int) int64 {
	all, used := n.Allocatable[resource], max(n.Used[resource], 0)
	if all < math.MinInt64+used {
		return math.MinInt64
	}
	return all - used
}

// unbound returns what can be requested of the node according to the snapshot. Nothing is bound in a State from which
// others are forked, so its columns have that value.
func (free *capacity) unbound(node, resource int) int64 {
	if free.base != nil && free.base.columns[resource] != nil {
		return free.base.columns[resource][node]
	}
	return unused(free.Node(node), resource)
}

// hasRoom reports whether the node has the requested amounts.
func (free *capacity) hasRoom(asks []ask, node int) bool {
	for i := range asks {
		if asks[i].amount > free.columns[asks[i].resource][node] {
			return false
		}
	}
	return true
}

// WithRoom keeps those of the nodes that have room for the request now.
func (free *capacity) WithRoom(nodes []int, request model.Resources) []int {
	asks := asksOf(request)
	free.open(asks)
	return slices.DeleteFunc(nodes, func(node int) bool { return !free.hasRoom(asks, node) })
}

func asksOf(request model.Resources) (asks []ask) {
	for r, amount := range request {
		if amount > 0 {
			asks = append(asks, ask{r, amount})
		}
	}
	return asks
}

// take subtracts n times the requested amounts from what is free on the node.
func (free *capacity) take(asks []ask, node int, n int64) {
	for i := range asks {
		free.columns[asks[i].resource][node] -= n * asks[i].amount
	}
}

// FreeOf returns what can still be requested of one resource of a node.
func (free *capacity) FreeOf(node, resource int) int64 {
	if free.columns[resource] != nil {
		return free.columns[resource][node]
	}
	return unused(free.Node(node), resource)
}
