package firstfit

import (
	"math"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// need is what a constraint demands of a domain.
type need uint8

const (
	nearPods need = iota
	apartFrom
	balance
)

// rule names the constraint.
func (n need) rule() model.Rule {
	switch n {
	case nearPods:
		return model.RuleAffinity
	case apartFrom:
		return model.RuleAntiAffinity
	}
	return model.RuleSpread
}

// constraint is an affinity term, an anti-affinity term or a spread.
type constraint struct {
	need
	counter, topology int
	affinity          int // of nearPods: index into variant.affinities
	self, skew        int32
	minDomains        int
	host              bool
	wide              bool    // of apartFrom: it applies to all domains that a node may be in, so the domain stays open
	universe          []int32 // of balance: the domains that count
	least             int32   // of balance: the count of the emptiest of them, at the variant's version
}

// affinity is a set of terms that the same pod must satisfy.
type affinity struct {
	counters []int
	alone    bool // the first pod of the group need not be near any pod
	free     bool // this is the first pod, at the variant's version
}

func newConstraint(state *rules.State, n need, counter int) constraint {
	t := state.CounterTopology(counter)
	return constraint{need: n, counter: counter, topology: t, host: state.TopologyKey(t) == model.LabelHostname}
}

func antiAffinity(state *rules.State, counter int, wide bool) constraint {
	c := newConstraint(state, apartFrom, counter)
	c.wide = wide
	return c
}

// decides reports whether the constraint requires a node's domain to be known: a spread does; an anti-affinity that
// is not wide, so that others can be elsewhere; and the affinity of the first pod of a group, which others will
// follow.
func (v *variant) decides(c *constraint) bool {
	return c.need == balance || c.need == apartFrom && !c.wide || c.need == nearPods && v.affinities[c.affinity].free
}

// topologyRule names a constraint on other pods; which of several does not matter.
func (v *variant) topologyRule() model.Rule {
	for _, n := range []need{balance, apartFrom, nearPods} {
		for i := range v.all {
			if v.all[i].need == n && !v.all[i].host {
				return n.rule()
			}
		}
	}
	return model.RuleRequirement
}

// prepare updates what the variant knows about topologies to the current counts.
func (f *fleet) prepare(v *variant) {
	against := f.state.AvoidedByCounters(v.shape)
	if v.prepared == f.version && len(v.all) == len(v.own)+len(against) {
		return
	}
	v.prepared = f.version
	if v.all == nil || len(v.all) != len(v.own)+len(against) {
		v.all = append(v.all[:0:0], v.own...)
		for _, c := range against {
			v.all = append(v.all, antiAffinity(f.state, int(c), true))
		}
	}
	for i := range v.affinities {
		a := &v.affinities[i]
		a.free = a.alone
		for _, c := range a.counters {
			total, _ := f.state.CountTotal(c)
			a.free = a.free && total+f.counter(c).total == 0
		}
	}
	for i := range v.all {
		if c := &v.all[i]; c.need == balance && !c.host {
			c.least = f.leastOf(c)
		}
	}
	v.dead = true
	for view := range v.options {
		for i := range v.options[view] {
			o := &v.options[view][i]
			o.possible = f.narrow(v, view, o)
			v.dead = v.dead && !o.possible
		}
	}
}

// leastOf returns the count of the emptiest domain; 0 while there are fewer than minDomains.
func (f *fleet) leastOf(c *constraint) int32 {
	if len(c.universe) == 0 || len(c.universe) < c.minDomains {
		return 0
	}
	least := int32(math.MaxInt32)
	for _, d := range c.universe {
		least = min(least, f.at(c.counter, d))
	}
	return least
}

// allows reports whether one more pod may go to the domain.
func (f *fleet) allows(v *variant, c *constraint, domain int32) bool {
	switch c.need {
	case nearPods:
		return v.affinities[c.affinity].free || f.at(c.counter, domain) > 0
	case apartFrom:
		_, unknown := f.state.CountTotal(c.counter)
		return unknown == 0 && f.at(c.counter, domain) == 0 && get(f.counter(c.counter).possible, int(domain)) == 0
	}
	return int64(f.at(c.counter, domain))+int64(c.self)-int64(c.least) <= int64(c.skew)
}

// allowsHost is allows for a planned node as a domain of its own. There is always an empty domain: the next node.
func (f *fleet) allowsHost(v *variant, c *constraint, i int) bool {
	n := get(f.counter(c.counter).host, i)
	switch c.need {
	case nearPods:
		return v.affinities[c.affinity].free || n > 0
	case apartFrom:
		return n == 0
	}
	return n+c.self <= c.skew
}

// narrow restricts an option to the zones and capacity types that all constraints allow now. It reports whether any
// are left.
func (f *fleet) narrow(v *variant, view int, o *option) bool {
	o.zonesNow = append(o.zonesNow[:0], o.Zones...)
	o.capacityNow = append(o.capacityNow[:0], o.Capacity...)
	for i := range v.all {
		c := &v.all[i]
		switch t := f.pools.topology(view, c.topology); t.source {
		case byZone:
			f.narrowDomains(v, c, t.domains, o.zonesNow)
		case byCapacity:
			f.narrowDomains(v, c, t.domains, o.capacityNow)
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

func (f *fleet) narrowDomains(v *variant, c *constraint, domains []int32, set rules.Bits) {
	for i, d := range domains {
		if set.Has(i) && !f.allows(v, c, d) {
			set.Remove(i)
		}
	}
}

// onNode returns the rule about other pods that keeps one more pod off an existing node, "" if none does.
func (f *fleet) onNode(v *variant, node int) model.Rule {
	for i := range v.all {
		c := &v.all[i]
		domain := f.state.DomainOf(c.topology, node)
		switch {
		case c.need == apartFrom && domain == rules.NoDomain:
		case domain < 0, !f.allows(v, c, domain):
			return c.rule()
		}
	}
	return ""
}
