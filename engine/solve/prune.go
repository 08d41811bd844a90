package solve

import (
	"slices"
	"strconv"

	"github.com/nodeless/nodeless/engine/model"
)

// prune removes from planned nodes the pods that kube-scheduler could not bind there: if the search was cut short, or
// a node could not be planned, they may depend on pods that never arrive. It binds the pods one after another: it (1)
// unbinds what is settled, (2) adds the planned nodes to the state, (3) binds whatever is allowed, pods that
// depend on others first, until nothing more is, and (4) removes the rest.
func (p *problem) prune() {
	unserved := func(g *group) bool { return len(p.unserved(g)) > 0 }
	if !p.partial && !p.dropped && !slices.ContainsFunc(p.groups, unserved) ||
		len(p.settled) == 0 && !slices.ContainsFunc(p.nodes, (*plannedNode).hasDependents) {
		return
	}
	x := &pruner{problem: p, unbound: p.settled, left: make([][]int, len(p.nodes)), index: make([]int, len(p.nodes))}
	for _, s := range p.settled {
		p.state.Unbind(s.group.index, s.node)
	}
	p.settled = nil
	for i, n := range p.nodes {
		x.index[i] = p.state.AddNode(p.builder.asNode(n, i))
		for _, a := range n.assignments {
			x.left[i] = append(x.left[i], a.n)
		}
	}
	for x.bind(true) || x.bind(false) {
	}
	for _, s := range slices.Backward(x.unbound) {
		s.group.pods = append([]int{s.pod}, s.group.pods...)
	}
	x.removeUnbound()
}

// pruner is the state of prune.
type pruner struct {
	*problem
	unbound []settled
	left    [][]int // by planned node, assignment: pods that are not bound yet
	index   []int   // of planned nodes in the state
}

// bind binds the pods that the state allows, either those of shapes that depend on other pods or the others. It
// reports whether it bound any.
func (x *pruner) bind(dependent bool) (bound bool) {
	x.unbound = slices.DeleteFunc(x.unbound, func(s settled) bool {
		if dependsOnPods(s.group.shape) != dependent || x.state.Allows(s.group.index, s.node) != "" {
			return false
		}
		x.state.Bind(s.group.index, s.node)
		x.settled = append(x.settled, s)
		bound = true
		return true
	})
	for i, n := range x.nodes {
		for j, a := range n.assignments {
			if dependsOnPods(a.group.shape) != dependent {
				continue
			}
			for x.left[i][j] > 0 && x.state.Allows(a.group.index, x.index[i]) == "" {
				x.state.Bind(a.group.index, x.index[i])
				x.left[i][j]--
				bound = true
			}
		}
	}
	return bound
}

// removeUnbound takes the pods that could not be bound off the planned nodes, and drops nodes without pods.
func (x *pruner) removeUnbound() {
	for i, n := range x.nodes {
		for j := range n.assignments {
			if n.assignments[j].n -= x.left[i][j]; x.left[i][j] > 0 {
				x.bound = 0 // the bound was for all pods
			}
		}
		n.assignments = slices.DeleteFunc(n.assignments, func(a assignment) bool { return a.n == 0 })
		if len(n.assignments) == 0 {
			x.refund(n)
			continue
		}
		n.sumLoad()
	}
	x.nodes = slices.DeleteFunc(x.nodes, func(n *plannedNode) bool { return len(n.assignments) == 0 })
}

// hasDependents reports whether a pod of the node depends on other pods.
func (n *plannedNode) hasDependents() bool {
	return slices.ContainsFunc(n.assignments, func(a assignment) bool { return dependsOnPods(a.group.shape) })
}

func dependsOnPods(s *model.Shape) bool {
	return len(s.Affinity)+len(s.AntiAffinity) > 0 || hasHardSpread(s)
}

// asNode returns the i-th planned node as a node of the chosen offering.
func (b *nodeBuilder) asNode(n *plannedNode, i int) model.Node {
	v := b.views[n.view]
	t := &v.Pool.Types[n.typ]
	out := model.Node{
		Name: "planned " + strconv.Itoa(i), Pool: v.Pool.Name, Type: t.Name,
		Zone: n.chosen.Zone, CapacityType: n.chosen.CapacityType, Taints: v.Pool.Taints,
		Capacity: t.Capacity, Allocatable: v.Net[n.typ], AttachLimits: t.AttachLimits,
	}
	for _, f := range v.Offers[n.typ] {
		if v.Zones[f.Zone] == n.chosen.Zone && v.Capacities[f.Capacity] == n.chosen.CapacityType {
			out.Labels = v.LabelsOf(n.typ, f)
			break
		}
	}
	for _, r := range n.custom {
		out.Labels = out.Labels.And(model.Requirements{oneValue(v, r)})
	}
	return out
}
