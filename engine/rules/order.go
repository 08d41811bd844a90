package rules

import (
	"slices"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// readiness lists the nodes in the order in which pods are placed on them one by one.
type readiness struct {
	nodes []int
	soft  bool // some node has a PreferNoSchedule taint
	of    int  // number of nodes when it was made
}

// ByReadiness returns the nodes that were not Deleting when it was first called, initialized ones first, then by
// name, and whether any node has a PreferNoSchedule taint. The list must not be changed.
func (st *State) ByReadiness() (nodes []int, soft bool) {
	if st.base != nil && len(st.added) == 0 {
		return st.base.ByReadiness()
	}
	if x := st.ready; x != nil && x.of == st.Nodes() {
		return x.nodes, x.soft
	}
	x := &readiness{nodes: make([]int, 0, st.Nodes()), of: st.Nodes()}
	for _, ready := range []bool{true, false} {
		begin := len(x.nodes)
		for i := range st.Nodes() {
			if n := st.Node(i); (n.State == model.Initialized) == ready {
				if !n.Deleting {
					x.nodes = append(x.nodes, i)
				}
				x.soft = x.soft || HasPreferNoSchedule(n.Taints)
			}
		}
		if len(st.added) > 0 { // otherwise they are sorted by name already
			slices.SortStableFunc(x.nodes[begin:], func(a, b int) int {
				return strings.Compare(st.Node(a).Name, st.Node(b).Name)
			})
		}
	}
	st.ready = x
	return x.nodes, x.soft
}

// Order is a list of nodes in order of use, prepared so that those without room for a request are skipped quickly: it
// knows an upper bound on the free resources of each block of nodes.
type Order struct {
	st    *State
	nodes []int
	at    []int32                      // by node: 1 + its position in nodes; 0 = not in the list
	most  *[model.MaxResources][]int64 // by resource and block, an upper bound on what a node has free; nil until needed
}

// block is the number of nodes that are skipped at once.
const block = 64

// Order prepares nodes. The order stays valid as long as Changed reports every node that gets more room.
func (st *State) Order(nodes []int) *Order {
	o := &Order{st: st, nodes: nodes, at: make([]int32, st.Nodes()), most: &[model.MaxResources][]int64{}}
	for k, node := range nodes {
		o.at[node] = int32(k + 1)
	}
	return o
}

// For returns the same order for a State forked from the order's; both share what is measured.
func (o *Order) For(st *State) *Order { return &Order{st: st, nodes: o.nodes, at: o.at, most: o.most} }

// Changed updates the bounds after a node's free resources changed.
func (o *Order) Changed(node int) {
	k := int(o.at[node]) - 1
	if k < 0 {
		return
	}
	for r := range o.most {
		if o.most[r] != nil {
			o.most[r][k/block] = max(o.most[r][k/block], unused(o.st.Node(node), r))
		}
	}
}

// WithRoom calls f for each node that has room for the request at that moment, in order, until f returns false.
func (o *Order) WithRoom(request model.Resources, f func(node int) bool) {
	asks := asksOf(request)
	o.st.open(asks)
	o.measure(asks)
	for b := 0; b*block < len(o.nodes); b++ {
		if !o.mayFit(asks, b) {
			continue
		}
		for _, node := range o.nodes[b*block : min((b+1)*block, len(o.nodes))] {
			if o.st.hasRoom(asks, node) && !f(node) {
				return
			}
		}
	}
}

func (o *Order) mayFit(asks []ask, b int) bool {
	for i := range asks {
		if asks[i].amount > o.most[asks[i].resource][b] {
			return false
		}
	}
	return true
}

// measure finds the most free resources in each block according to the snapshot; no trial raises them.
func (o *Order) measure(asks []ask) {
	for i := range asks {
		r := asks[i].resource
		if o.most[r] != nil {
			continue
		}
		o.most[r] = make([]int64, (len(o.nodes)+block-1)/block)
		for k, node := range o.nodes {
			free := o.st.unbound(node, r)
			if k%block == 0 || free > o.most[r][k/block] {
				o.most[r][k/block] = free
			}
		}
	}
}
