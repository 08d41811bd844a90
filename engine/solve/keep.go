package solve

import (
	"slices"
	"sort"

	"github.com/nodeless/nodeless/engine/model"
)

// keep leaves pods the places that an earlier plan gave them, where the rules still allow them: kube-scheduler keeps room for them there,
// and a plan that fills machines to the last is not easily found again from what has come of it so far.
func (p *problem) keep() {
	if !slices.ContainsFunc(p.s.Pending, func(pod model.Pod) bool { return pod.Nominated != "" }) {
		return
	}
	at := map[string]int{} // by name; -1 = there is no such machine
	named := func(name string) int {
		n, known := at[name]
		if !known {
			if n = sort.Search(len(p.s.Nodes), func(i int) bool { return p.s.Nodes[i].Name >= name }); n == len(p.s.Nodes) || p.s.Nodes[n].Name != name {
				n = -1
			}
			at[name] = n
		}
		return n
	}
	for again := true; again; {
		again = false
		for _, g := range p.groups {
			left := g.pods[:0:0]
			for _, pod := range g.pods {
				n := named(p.s.Pending[pod].Nominated)
				if n < 0 || p.state.Allows(g.index, n) != "" {
					left = append(left, pod)
					continue
				}
				p.bindKept(g, pod, n)
				again = true
			}
			g.pods = left
		}
		again = again && p.dependent()
	}
}

// bindKept gives one of the group's pods its place.
func (p *problem) bindKept(g *group, pod, node int) {
	p.state.Bind(g.index, node)
	p.plan.Placements = append(p.plan.Placements, model.Placement{Pod: p.s.Pending[pod].PodKey, Node: p.s.Nodes[node].Name})
	if p.kept == nil {
		p.kept = make([]bool, len(p.s.Pending))
	}
	p.kept[pod] = true
}
