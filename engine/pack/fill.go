package pack

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// take is some pods of a group on a machine, with the option by which they may run there.
type take struct {
	group *group
	n     int
	opt   int16
}

// fill is a candidate with pods on it.
type fill struct {
	candidate *candidate
	takes     []take
	value     uint64
	all       bool // nothing else waits
}

// evaluate fills each candidate of the seed. It gives the best by price for value, and the cheapest that takes all.
func (p *problem) evaluate(seed *group) (best, closer fill) {
	live := p.live()
	least := p.leastAsked(live)
	for i := range p.candidates(seed.class, seed.tier) {
		c := &p.classes[seed.class].tiers[seed.tier][i]
		if !p.rooms[c.view].Allows(&p.views[c.view].Pool.Limits, &p.views[c.view].Pool.Types[c.typ].Capacity) {
			continue
		}
		f := p.fill(c, seed, live, least)
		if len(f.takes) == 0 {
			continue
		}
		if best.candidate == nil || better(&f, &best) {
			best = f
		}
		if f.all && closer.candidate == nil {
			closer = f
		}
		if p.steps <= 0 {
			p.partial = true
			break
		}
	}
	return best, closer
}

// better compares price for value; of equals the one that takes more, so that fewer machines are needed.
func better(a, b *fill) bool {
	x, y := uint64(a.candidate.offer.Price), uint64(b.candidate.offer.Price)
	if less(x, b.value+1, y, a.value+1) {
		return true
	}
	return !less(y, a.value+1, x, b.value+1) && a.value > b.value
}

func (p *problem) live() []*group {
	var out []*group
	for _, g := range p.groups {
		if g.left > 0 && g.tier < len(p.tiers) {
			out = append(out, g)
		}
	}
	return out
}

// leastAsked is, for each position in live, the least that any group from there on asks of each active resource.
func (p *problem) leastAsked(live []*group) []model.Resources {
	out := make([]model.Resources, len(live))
	for i := len(live) - 1; i >= 0; i-- {
		out[i] = live[i].request
		if i+1 < len(live) {
			for _, r := range p.active {
				out[i][r] = min(out[i][r], out[i+1][r])
			}
		}
	}
	return out
}

func (p *problem) fill(c *candidate, seed *group, live []*group, least []model.Resources) fill {
	f := fill{candidate: c, all: true}
	v := p.views[c.view]
	if holds(&seed.request, &v.Net[c.typ], p.active, 1) == 0 {
		return f
	}
	free := v.Net[c.typ]
	var custom model.Requirements
	for i := p.first(live, seed); i < len(live); i++ {
		g := live[i]
		if p.full(&free, &least[i]) {
			f.all = false
			break
		}
		p.steps--
		n := 0
		opt := c.joins[g.class]
		if g.tier == seed.tier && opt >= 0 && rules.Compatible(custom, p.classes[g.class].options[c.view][opt].Custom) {
			n = holds(&g.request, &free, p.active, g.left)
		}
		f.all = f.all && n == g.left
		if n == 0 {
			continue
		}
		for _, r := range p.active {
			free[r] -= int64(n) * g.request[r]
		}
		if o := &p.classes[g.class].options[c.view][opt]; len(o.Custom) > 0 {
			custom = custom.And(o.Custom)
		}
		f.value += uint64(n) * g.value
		f.takes = append(f.takes, take{g, n, opt})
	}
	if len(f.takes) > 0 && f.takes[0].group != seed {
		return fill{}
	}
	return f
}

// first is where the seed stands: groups before it wait for nothing.
func (p *problem) first(live []*group, seed *group) int { return max(slices.Index(live, seed), 0) }

// full reports whether nothing from here on can fit.
func (p *problem) full(free, least *model.Resources) bool {
	for _, r := range p.active {
		if least[r] > 0 && least[r] > free[r] {
			return true
		}
	}
	return false
}
