package pack

import "slices"

// step is where the search stood before it chose a machine: a single machine for all that was left, if there is one.
type step struct {
	machines int
	hopeless int // pods that no machine could be found for by then
	closer   fill
}

// search fills one machine after the other. Each time the largest waiting pod names the machines in question; each of
// them is filled, largest pods first; the one with the lowest price for the value of its load is taken. At the end it
// looks whether one machine would have been cheaper than the last few.
func (p *problem) search() []machine {
	var out []machine
	var trail []step
	for {
		seed := p.seed()
		if seed == nil || p.partial {
			break
		}
		best, closer := p.evaluate(seed)
		if best.candidate == nil {
			if !p.partial {
				p.advance(seed.tier)
			}
			continue
		}
		m, ok := p.shrinkToFit(best)
		if !ok {
			p.ban(seed, best.candidate.view)
			continue
		}
		trail = append(trail, step{len(out), p.hopeless(), closer})
		if out = p.commit(out, m); len(out) == trail[len(trail)-1].machines {
			p.partial = true // a machine that was built within the limits did not keep them: stop rather than try for ever
		}
	}
	return p.closeEarlier(out, trail)
}

// seed is the first group in packing order that waits and still may get a machine.
func (p *problem) seed() *group {
	for _, g := range p.groups {
		if g.left > 0 && g.tier < len(p.tiers) {
			return g
		}
	}
	return nil
}

// commit takes the machine as often as the same load is there again, but for the last times, where another choice may be
// cheaper for what remains.
func (p *problem) commit(out []machine, m machine) []machine {
	times := len(p.s.Pending)
	for _, t := range m.takes {
		times = min(times, t.group.left/t.n)
	}
	room, limits := &p.rooms[m.view], &p.views[m.view].Pool.Limits
	for range max(1, times-2) {
		if !room.Allows(limits, &m.largest) {
			break
		}
		*room = room.Less(m.largest)
		for _, t := range m.takes {
			t.group.left -= t.n
		}
		out = append(out, m)
	}
	return out
}

// advance sends the groups of a tier that can get nothing there any more to the next.
func (p *problem) advance(tier int) {
	for _, g := range p.groups {
		if g.left > 0 && g.tier == tier && !p.feasible(g, true) {
			g.tier++
			p.nextTier(g)
		}
	}
}

// nextTier moves the group to the first tier, from where it stands, with a machine it fits.
func (p *problem) nextTier(g *group) {
	for g.tier < len(p.tiers) && !p.feasible(g, false) {
		g.tier++
	}
}

func (p *problem) feasible(g *group, withinLimits bool) bool {
	return slices.ContainsFunc(p.candidates(g.class, g.tier), func(c candidate) bool {
		v := p.views[c.view]
		return holds(&g.request, &v.Net[c.typ], p.active, 1) > 0 &&
			(!withinLimits || p.rooms[c.view].Allows(&v.Pool.Limits, &v.Pool.Types[c.typ].Capacity))
	})
}

// ban closes a pool to the seed's class, because its minValues cannot be kept even for a single pod.
func (p *problem) ban(seed *group, view int) {
	c := p.classes[seed.class]
	c.banned[view] = true
	c.tiers[seed.tier] = nil
	for _, g := range p.groups {
		if g.left > 0 && g.class == seed.class {
			p.nextTier(g)
		}
	}
}
