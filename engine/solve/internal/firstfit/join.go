package firstfit

import (
	"math"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// cannot is a quick no: too little room, or nothing in common.
func cannot(m *machine, asks []ask, o *option) bool {
	for i := range asks {
		if asks[i].amount > m.most[asks[i].resource] {
			return true
		}
	}
	return !overlap(m.zones, o.zonesNow) || !overlap(m.capacity, o.capacityNow) || !overlap(m.types, o.Types)
}

// join works out in p.try what machine i would be with a pod of the form by the option. It gives the rule that says no, and
// whether that is for good.
func (p *Packer) join(f *form, i int, m *machine, o *option) (model.Rule, bool) {
	t, pool := &p.try, p.pools[m.view]
	var ok bool
	if t.types, ok = intersect(t.types, m.types, o.Types); !ok || !rules.Compatible(m.custom, o.Custom) {
		return model.RuleRequirement, true
	}
	t.custom = m.custom
	if len(o.Custom) > 0 {
		t.custom = m.custom.And(o.Custom)
	}
	if rule := p.joinPorts(f, m); rule != "" {
		return rule, true
	}
	if !overlap(m.zones, o.zones) || !overlap(m.capacity, o.capacity) {
		return model.RuleRequirement, true
	}
	var zonesOK, capacityOK bool
	t.zones, zonesOK = intersect(t.zones, m.zones, o.zonesNow)
	t.capacity, capacityOK = intersect(t.capacity, m.capacity, o.capacityNow)
	if !zonesOK || !capacityOK {
		return p.blame(f), false
	}
	if rule, forGood := p.joinDomains(f, i, m); rule != "" {
		return rule, forGood
	}
	return p.fitTypes(f, m, pool)
}

// blame names a constraint to other pods; which of several does not matter.
func (p *Packer) blame(f *form) model.Rule {
	for _, n := range []need{balance, apartFrom, nearPods} {
		for i := range f.all {
			if f.all[i].need == n && !f.all[i].host {
				return ruleOf(n)
			}
		}
	}
	return model.RuleRequirement
}

// joinDomains asks each constraint. Some decide the domain where it is open: the emptiest.
func (p *Packer) joinDomains(f *form, i int, m *machine) (model.Rule, bool) {
	t := &p.try
	for x := range f.all {
		c := &f.all[x]
		of := p.topology(m.view, c.topology)
		ok := true
		switch of.kind {
		case byHost:
			if !p.allowsHost(f, c, i) {
				return ruleOf(c.need), c.need != nearPods
			}
		case byZone:
			ok = !f.decides(c) || p.decide(f.chain.asks, c, of, m, t.zones)
		case byCapacity:
			ok = !f.decides(c) || p.decide(f.chain.asks, c, of, m, t.capacity)
		case byType:
			ok = p.joinTypes(f, c, of, m)
		case byCustom:
			ok = p.joinCustom(f, c, of, m)
		}
		if !ok {
			return ruleOf(c.need), false
		}
	}
	return "", false
}

// joinTypes leaves the types whose domain is allowed, or those of the emptiest domain.
func (p *Packer) joinTypes(f *form, c *constraint, of *ofTopology, m *machine) bool {
	t, chosen := &p.try, int32(-1)
	for i := next(t.types, 0); i >= 0; i = next(t.types, i+1) {
		d := of.domains[i]
		switch {
		case d < 0 && c.need == apartFrom:
		case d < 0, !p.allows(f, c, d):
			remove(t.types, i)
		case chosen < 0 || p.at(c.counter, d) < p.at(c.counter, chosen):
			chosen = d
		}
	}
	for i := next(t.types, 0); f.decides(c) && i >= 0; i = next(t.types, i+1) {
		if of.domains[i] != chosen {
			remove(t.types, i)
		}
	}
	return !t.types.Empty() && (!f.decides(c) || p.bears(c, of, m, chosen))
}

// joinCustom leaves the values of a custom label that are allowed, or the emptiest.
func (p *Packer) joinCustom(f *form, c *constraint, of *ofTopology, m *machine) bool {
	t := &p.try
	have, chosen := t.custom.Get(of.key)
	var values []string
	best, open := int32(-1), 0
	for i, d := range of.domains {
		if chosen && !have.Has(of.values[i]) {
			continue
		}
		open++
		switch {
		case !p.allows(f, c, d):
		case !f.decides(c):
			values = append(values, of.values[i])
		case best < 0 || p.at(c.counter, d) < p.at(c.counter, best):
			best, values = d, []string{of.values[i]}
		}
	}
	if len(values) > 0 && len(values) < open {
		t.custom = t.custom.And(model.Requirements{model.OneOf(of.key, values...)})
	}
	return len(values) > 0 && (best < 0 || p.bears(c, of, m, best))
}

func (p *Packer) joinPorts(f *form, m *machine) model.Rule {
	for _, want := range f.chain.shape.HostPorts {
		for _, have := range m.ports {
			if want.Port > 0 && want.Conflicts(have) {
				return model.RuleHostPort
			}
		}
	}
	return ""
}

// fitTypes leaves the types that hold the load with the pod, have an offering and can attach the volumes.
func (p *Packer) fitTypes(f *form, m *machine, pool *pool) (model.Rule, bool) {
	t := &p.try
	t.pairs = pool.pairs(t.pairs, t.zones, t.capacity)
	shape, fits, offered, ports := f.chain.shape, false, false, false
	for _, r := range p.active {
		t.most[r] = math.MinInt64
	}
	for i := next(t.types, 0); i >= 0; i = next(t.types, i+1) {
		if !holds(&pool.v.Net[i], &m.load, f.chain.asks) {
			remove(t.types, i)
			continue
		}
		fits = true
		if !overlap(pool.offered[i], t.pairs) {
			remove(t.types, i)
			continue
		}
		offered = true
		if len(shape.HostPorts) > 0 && !pool.v.DaemonPortsAllow(shape.HostPorts, i) {
			remove(t.types, i)
			continue
		}
		ports = true
		if len(shape.Volumes) > 0 && !p.attaches(&pool.v.Pool.Types[i], m.volumes, shape.Volumes) {
			remove(t.types, i)
			continue
		}
		for _, r := range p.active {
			t.most[r] = max(t.most[r], pool.v.Net[i][r])
		}
	}
	switch {
	case !fits:
		return model.RuleResource, true
	case !offered:
		return model.RuleCapacity, equal(t.zones, m.zones) && equal(t.capacity, m.capacity)
	case !ports:
		return model.RuleHostPort, true
	case t.types.Empty():
		return model.RuleVolumeLimit, true
	case !m.relaxed && len(pool.v.MinValues) > 0 && !p.keepsMinValues(pool):
		return model.RuleMinValues, false
	}
	return "", false
}

func holds(net, load *model.Resources, asks []ask) bool {
	for i := range asks {
		r := asks[i].resource
		if asks[i].amount > net[r]-load[r] {
			return false
		}
	}
	return true
}

func (p *Packer) keepsMinValues(pool *pool) bool {
	var types []int
	for i := next(p.try.types, 0); i >= 0; i = next(p.try.types, i+1) {
		types = append(types, i)
	}
	_, _, short := pool.v.ShortOfValues(types, toBools(p.try.zones, len(pool.v.Zones)), toBools(p.try.capacity, len(pool.v.Capacities)))
	return !short
}

// attaches reports whether a machine of the type can take the volumes it has and these.
func (p *Packer) attaches(t *model.InstanceType, have []*model.Volume, more []model.Volume) bool {
	for i := range t.AttachLimits {
		limit := &t.AttachLimits[i]
		ids := map[string]bool{}
		fresh := false
		for _, v := range have {
			if p.drivers[v.ID] == limit.Driver {
				ids[v.ID] = true
			}
		}
		for j := range more {
			if v := &more[j]; p.drivers[v.ID] == limit.Driver && !ids[v.ID] {
				ids[v.ID], fresh = true, true
			}
		}
		if fresh && int64(len(ids)) > limit.Max {
			return false
		}
	}
	return true
}
