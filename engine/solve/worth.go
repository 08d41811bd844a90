package solve

import (
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
	"github.com/nodeless/nodeless/engine/solve/internal/binpack"
)

// Worth is what a pod of each shape is worth, where each pod that waits stands for so many, the most important of its shape:
// whichever of the pods get machines of their own, those cost at least what the pods are worth together, in the policy's effective
// prices an hour. It is the shadow price of the pods' resources where all of them are bought together, and 0 for shapes that no
// offering can hold or of which no pod waits.
func Worth(s *model.Snapshot, policy model.Policy, count []int) []float64 {
	s = forPods(s)
	p := &problem{s: s, policy: &policy, maxTypes: mostTypes(&policy), classOf: map[string]int{}, users: map[int]int{}, shared: &Places{}, state: rules.NewState(&model.Snapshot{})}
	p.group()
	p.open()
	p.openClasses()
	for _, g := range p.groups {
		n := 0
		for _, i := range g.pods {
			n += count[i]
		}
		g.parts = []part{{class: g.class, n: n}}
	}
	every := make([]int, len(p.views))
	for i := range every {
		every[i] = i
	}
	p.tiers = [][]int{every}
	out := make([]float64, len(s.Shapes))
	shop := p.shopIn(0, true)
	shop.cover.Relaxed = nil
	for k, worth := range binpack.Value(&shop.cover) {
		for _, m := range shop.members[k] {
			out[m.g.index] = worth
		}
	}
	return out
}
