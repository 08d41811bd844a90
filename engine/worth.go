package engine

import (
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/solve"
)

// worths is the worth of a pod by shape, in effective price per hour: see solve.Value.
type worths []float64

// worthsOf returns what pods are worth if nodes are purchased for the pods of all candidates together: the cheapest
// configuration of the part of the cluster that may change.
func (c *consolidation) worthsOf(candidates []*model.Node) worths {
	if len(candidates) == 0 {
		return nil
	}
	now, s := c.projected.now, *c.projected.now
	s.Pending = nil
	// like[virtual][shape] is 1 + the index of such a pod in s.Pending, 0 if there is none
	like, count := [2][]int{make([]int, len(s.Shapes)), make([]int, len(s.Shapes))}, []int(nil)
	next := 0
	for _, n := range byName(candidates) {
		for next < len(now.Nodes) && now.Nodes[next].Name < n.Name {
			next++
		}
		if next == len(now.Nodes) || now.Nodes[next].Name != n.Name {
			continue
		}
		for k := range now.Nodes[next].Pods {
			p := &now.Nodes[next].Pods[k]
			if !p.Moves() || p.Shape < 0 || p.Shape >= len(s.Shapes) {
				continue
			}
			at := &like[0][p.Shape]
			if p.Virtual {
				at = &like[1][p.Shape]
			}
			if *at == 0 {
				s.Pending, count = append(s.Pending, p.Pod), append(count, 0)
				*at = len(count)
			}
			if count[*at-1]++; p.Priority > s.Pending[*at-1].Priority {
				s.Pending[*at-1] = p.Pod
			}
		}
	}
	return solve.Value(&s, c.policy, count)
}

// of returns what a pod of the shape is worth, 0 if unknown.
func (w worths) of(shape int) float64 {
	if shape < 0 || shape >= len(w) {
		return 0
	}
	return w[shape]
}

// waste returns the node's price beyond the worth of its pods: no replacement saves more.
func (c *consolidation) waste(n *model.Node) float64 {
	out := float64(c.effective(n))
	for i := range n.Pods {
		if n.Pods[i].Moves() {
			out -= c.worth.of(n.Pods[i].Shape)
		}
	}
	return out
}
