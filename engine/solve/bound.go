package solve

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
	"github.com/nodeless/nodeless/engine/solve/internal/binpack"
)

// boundServed computes a lower bound if buy proved none because pods of several tiers were served, or limits or
// minValues narrowed the choice. It assumes that every pod may use any offering of any pool.
func (p *problem) boundServed() {
	for _, g := range p.groups {
		if slices.ContainsFunc(g.parts, func(x part) bool { return x.n > 0 }) {
			p.bound = 0
		}
	}
	if slices.ContainsFunc(p.views, func(v *rules.View) bool { return len(v.MinValues) > 0 }) {
		p.bound = 0 // nodes that do not keep minValues were not offered
	}
	if p.bound > 0 || len(p.nodes) == 0 {
		return
	}
	served := map[*group]int{}
	for _, n := range p.nodes {
		for _, a := range n.assignments {
			served[a.group] += a.n
		}
	}
	kept := make([][]part, len(p.groups))
	for i, g := range p.groups {
		kept[i] = g.parts
		g.parts = []part{{class: g.class, n: served[g]}}
	}
	left := p.addresses
	// The views leave out zones that had too few addresses from the start. What these nodes took must not raise the bound.
	p.addresses = nil
	x := p.newPurchase(p.allViews(), true)
	p.addresses = left
	x.packing.Relaxed = nil
	p.bound = model.Price(binpack.Bound(&x.packing))
	for i, g := range p.groups {
		g.parts = kept[i]
	}
}
