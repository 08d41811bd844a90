package pack

import "github.com/nodeless/nodeless/engine/model"

// closeEarlier replaces the last machines by a single one where that is cheaper or leaves fewer pods without.
func (p *problem) closeEarlier(out []machine, trail []step) []machine {
	var total model.Price
	for _, m := range out {
		total += m.chosen.Price
	}
	left, cost, at, last := p.unserved(), total, -1, machine{}
	var before model.Price
	done := 0
	for i, s := range trail {
		for ; done < s.machines; done++ {
			before += out[done].chosen.Price
		}
		if s.closer.candidate == nil || s.hopeless > left || s.hopeless == left && before+s.closer.candidate.offer.Price >= cost {
			continue
		}
		p.reset(out[:s.machines])
		m, ok := p.build(s.closer.candidate.view, s.closer.takes)
		if ok && (s.hopeless < left || before+m.chosen.Price < cost) {
			left, cost, at, last = s.hopeless, before+m.chosen.Price, i, m
		}
	}
	if at >= 0 {
		out = append(out[:trail[at].machines:trail[at].machines], last)
	}
	p.reset(out)
	return out
}

// unserved counts the pods that have nothing yet, hopeless those among them for which no pool is left to try.
func (p *problem) unserved() (n int) {
	for _, g := range p.groups {
		n += g.left
	}
	return n
}

func (p *problem) hopeless() (n int) {
	for _, g := range p.groups {
		if g.tier >= len(p.tiers) {
			n += g.left
		}
	}
	return n
}

// reset makes what is left, of pods and of limits, what the machines leave.
func (p *problem) reset(machines []machine) {
	for i, v := range p.views {
		p.rooms[i] = v.Room()
	}
	for _, g := range p.groups {
		g.left = len(g.pods)
	}
	for _, m := range machines {
		p.rooms[m.view] = p.rooms[m.view].Less(m.largest)
		for _, t := range m.takes {
			t.group.left -= t.n
		}
	}
}
