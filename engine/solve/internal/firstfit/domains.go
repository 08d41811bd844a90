package firstfit

import (
	"math"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// prepare brings what the form knows of domains up to the counts of now.
func (p *Packer) prepare(f *form) {
	against := p.st.AvoidedByCounters(f.shape)
	if f.prepared == p.version && len(f.all) == len(f.own)+len(against) {
		return
	}
	f.prepared = p.version
	if f.all == nil || len(f.all) != len(f.own)+len(against) {
		f.all = append(f.all[:0:0], f.own...)
		for _, c := range against {
			x := p.constraint(apartFrom, int(c))
			x.wide = true
			f.all = append(f.all, x)
		}
	}
	for i := range f.groups {
		g := &f.groups[i]
		g.free = g.alone
		for _, c := range g.counters {
			total, _ := p.st.CountTotal(c)
			g.free = g.free && total+p.counter(c).total == 0
		}
	}
	for i := range f.all {
		if c := &f.all[i]; c.need == balance && !c.host {
			c.least = p.leastOf(c)
		}
	}
	f.dead = true
	for view := range f.pools {
		for i := range f.pools[view] {
			o := &f.pools[view][i]
			o.possible = p.narrowOption(f, view, o)
			f.dead = f.dead && !o.possible
		}
	}
}

// leastOf is the count of the emptiest domain; 0 while there are fewer than there should be.
func (p *Packer) leastOf(c *constraint) int32 {
	if len(c.universe) == 0 || len(c.universe) < c.minDomains {
		return 0
	}
	least := int32(math.MaxInt32)
	for _, d := range c.universe {
		least = min(least, p.at(c.counter, d))
	}
	return least
}

// at is the number of pods that are sure to be in a domain.
func (p *Packer) at(counter int, domain int32) int32 {
	return p.st.CountIn(counter, domain) + get(p.counter(counter).at, int(domain))
}

// allows reports whether one more pod may go to the domain.
func (p *Packer) allows(f *form, c *constraint, domain int32) bool {
	switch c.need {
	case nearPods:
		return f.groups[c.group].free || p.at(c.counter, domain) > 0
	case apartFrom:
		_, unknown := p.st.CountTotal(c.counter)
		return unknown == 0 && p.at(c.counter, domain) == 0 && get(p.counter(c.counter).maybe, int(domain)) == 0
	}
	return int64(p.at(c.counter, domain))+int64(c.self)-int64(c.least) <= int64(c.skew)
}

// allowsHost is the same of a planned machine as a domain of its own. There is always an empty one: the next machine.
func (p *Packer) allowsHost(f *form, c *constraint, m int) bool {
	n := get(p.counter(c.counter).host, m)
	switch c.need {
	case nearPods:
		return f.groups[c.group].free || n > 0
	case apartFrom:
		return n == 0
	}
	return n+c.self <= c.skew
}

// narrowOption leaves the zones and capacity types of an option that all constraints allow now.
func (p *Packer) narrowOption(f *form, view int, o *option) bool {
	o.zonesNow = append(o.zonesNow[:0], o.zones...)
	o.capacityNow = append(o.capacityNow[:0], o.capacity...)
	for i := range f.all {
		c := &f.all[i]
		switch t := p.topology(view, c.topology); t.kind {
		case byZone:
			p.narrowDomains(f, c, t.domains, o.zonesNow)
		case byCapacity:
			p.narrowDomains(f, c, t.domains, o.capacityNow)
		case absent:
			if c.need != apartFrom {
				return false
			}
		case open:
			return false
		}
	}
	return !o.zonesNow.Empty() && !o.capacityNow.Empty()
}

func (p *Packer) narrowDomains(f *form, c *constraint, domains []int32, set rules.Bits) {
	for i, d := range domains {
		if set.Has(i) && !p.allows(f, c, d) {
			remove(set, i)
		}
	}
}

// ruleOf names a constraint.
func ruleOf(n need) model.Rule {
	switch n {
	case nearPods:
		return model.RuleAffinity
	case apartFrom:
		return model.RuleAntiAffinity
	}
	return model.RuleSpread
}

// onNode is what other pods say of one more on a node.
func (p *Packer) onNode(f *form, node int) model.Rule {
	for i := range f.all {
		c := &f.all[i]
		domain := p.st.DomainOf(c.topology, node)
		switch {
		case domain < 0 && c.need == apartFrom && domain == rules.NoDomain:
		case domain < 0, !p.allows(f, c, domain):
			return ruleOf(c.need)
		}
	}
	return ""
}
