package rules

import (
	"slices"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// readiness is nodes in the order in which pods are put on them one by one.
type readiness struct {
	nodes []int
	soft  bool // some node has a taint that is only to be avoided
	of    int  // how many nodes there were
}

// ByReadiness are the nodes that were not Deleting when it was first asked for, those that are initialized first, then by name, and whether
// any node has a taint that is only to be avoided. The list is not to be changed.
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
			if n := st.node(i); (n.State == model.Initialized) == ready {
				if !n.Deleting {
					x.nodes = append(x.nodes, i)
				}
				x.soft = x.soft || HasPreferNoSchedule(n.Taints)
			}
		}
		if len(st.added) > 0 { // the others come by name
			slices.SortStableFunc(x.nodes[begin:], func(a, b int) int { return strings.Compare(st.node(a).Name, st.node(b).Name) })
		}
	}
	st.ready = x
	return x.nodes, x.soft
}

// HasSoft reports whether one of the taints is only to be avoided.
func HasPreferNoSchedule(taints []model.Taint) bool {
	return slices.ContainsFunc(taints, func(t model.Taint) bool { return t.Effect == model.PreferNoSchedule })
}

// Order is nodes in the order in which they are used, prepared so that those without room for a request are passed over quickly.
type Order struct {
	st    *State
	nodes []int
	at    []int32                      // by node: 1 + where it is in nodes; 0 = nowhere
	most  *[model.MaxResources][]int64 // by block, no less than any node has room for; nil until it is asked for
}

// block is how many nodes are passed over at once.
const block = 64

// Order prepares nodes. It serves as long as it is told of nodes that take pods and got more room than they had.
func (st *State) Order(nodes []int) *Order {
	o := &Order{st: st, nodes: nodes, at: make([]int32, st.Nodes()), most: &[model.MaxResources][]int64{}}
	for k, node := range nodes {
		o.at[node] = int32(k + 1)
	}
	return o
}

// For is the same order for a State that was made by Fresh from the order's: what is measured serves both.
func (o *Order) For(st *State) *Order { return &Order{st: st, nodes: o.nodes, at: o.at, most: o.most} }

// Changed tells that a node has other room than before.
func (o *Order) Changed(node int) {
	k := int(o.at[node]) - 1
	if k < 0 {
		return
	}
	for r := range o.most {
		if o.most[r] != nil {
			o.most[r][k/block] = max(o.most[r][k/block], unused(o.st.node(node), r))
		}
	}
}

// WithRoom gives the nodes in turn that have room for the request then, until f has enough.
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

// measure finds the most room in each block as the snapshot says, which no trial raises.
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
