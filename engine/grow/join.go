package grow

import (
	"math"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// machine is a planned machine at work.
type machine struct {
	view     int
	shapes   []ShapeCount
	pods     int
	types    rules.Bits
	zones    rules.Bits
	capacity rules.Bits
	custom   model.Requirements
	load     model.Resources
	most     model.Resources // that some type has left
	ports    []model.HostPort
	volumes  []*model.Volume // each once
}

// trial is what a machine would be with one more pod.
type trial struct {
	types, zones, capacity, pairs rules.Bits
	zonePrices, capacityPrices    []model.Price
	custom                        model.Requirements
	most                          model.Resources // that one of the types has, of resources that some shape asks for
}

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

// decides reports whether the constraint wants the domain to be known: a spread; an anti-affinity, so that others can be
// elsewhere; and the first pod of a group, which others will follow.
func (f *form) decides(c *constraint) bool {
	return c.need == balance || c.need == apartFrom && !c.wide || c.need == nearPods && f.groups[c.group].free
}

// decide leaves only the zone or capacity type with the fewest pods, of equals the one with the cheapest offering. set is
// that of the trial, asks what comes to the machine's load.
func (p *Packer) decide(asks []ask, c *constraint, of *ofTopology, m *machine, set rules.Bits) bool {
	best := next(set, 0)
	if best >= 0 && next(set, best+1) >= 0 {
		p.reach(asks, m)
		prices := p.try.zonePrices
		if of.kind == byCapacity {
			prices = p.try.capacityPrices
		}
		best = next(set, 0)
		for i := best; i >= 0; i = next(set, i+1) {
			a, b := p.at(c.counter, of.domains[i]), p.at(c.counter, of.domains[best])
			if a < b || a == b && prices[i] < prices[best] {
				best = i
			}
		}
	}
	if best < 0 || !p.bears(c, of, m, of.domains[best]) {
		return false
	}
	clear(set)
	set.Set(best)
	return true
}

// reach leaves the zones and capacity types in which some type that holds the load can be had, before one of them is chosen,
// and finds their least prices.
func (p *Packer) reach(asks []ask, m *machine) {
	t, pool := &p.try, p.pools[m.view]
	t.zonePrices = filledPrices(t.zonePrices, len(pool.v.Zones))
	t.capacityPrices = filledPrices(t.capacityPrices, len(pool.v.Capacities))
	found := false
	for i := next(t.types, 0); i >= 0; i = next(t.types, i+1) {
		if !holds(&pool.v.Net[i], &m.load, asks) {
			continue
		}
		for _, o := range pool.ways[i] {
			if t.zones.Has(o.Zone) && t.capacity.Has(o.Capacity) {
				t.zonePrices[o.Zone] = min(t.zonePrices[o.Zone], o.Price)
				t.capacityPrices[o.Capacity] = min(t.capacityPrices[o.Capacity], o.Price)
				found = true
			}
		}
	}
	if !found {
		return // what is missing is said where types are looked at
	}
	drop(t.zones, t.zonePrices)
	drop(t.capacity, t.capacityPrices)
}

// filledPrices are so many prices that nothing reaches.
func filledPrices(list []model.Price, n int) []model.Price {
	list = list[:0]
	for range n {
		list = append(list, math.MaxInt64)
	}
	return list
}

// drop takes out of a set what cannot be had.
func drop(set rules.Bits, prices []model.Price) {
	for i, price := range prices {
		if price == math.MaxInt64 {
			remove(set, i)
		}
	}
}

// bears reports whether a spread bears that with the domain of a machine the place of the pods it carries is decided too.
func (p *Packer) bears(c *constraint, of *ofTopology, m *machine, domain int32) bool {
	if c.need != balance || len(m.shapes) == 0 {
		return true
	}
	p.domains = p.possible(p.domains[:0], of, m.types, m.zones, m.capacity, m.custom)
	if len(p.domains) < 2 || !p.counter(c.counter).countable(m) {
		return true
	}
	carried := int64(0)
	for _, sc := range m.shapes {
		if p.isAbout(c.counter, sc.Shape) {
			carried += int64(sc.N)
		}
	}
	return int64(p.at(c.counter, domain))+carried+int64(c.self)-int64(c.least) <= int64(c.skew)
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
		if len(shape.HostPorts) > 0 && !pool.v.DaemonsLeave(shape.HostPorts, i) {
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
	case len(pool.v.MinValues) > 0 && !p.keepsMinValues(pool):
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
		if fresh && int64(len(ids)) > limit.Most {
			return false
		}
	}
	return true
}
