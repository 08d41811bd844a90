package firstfit

import (
	"math"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// joiner works out what a node would become with one more pod.
type joiner struct {
	fleet *fleet
	trial trial
}

// join works out in trial what node i would become with a pod of the variant that uses the option: (1) the types,
// custom labels and ports in common, (2) the zones and capacity types in common that topologies allow, (3) each
// constraint, which may decide a domain, and (4) the types that hold the load and are available. It returns the rule
// that refuses the pod, and whether the refusal is final.
func (j *joiner) join(v *variant, i int, n *node, o *option) (model.Rule, bool) {
	t := &j.trial
	var ok bool
	if t.types, ok = intersect(t.types, n.types, o.Types); !ok || !rules.Compatible(n.custom, o.Custom) {
		return model.RuleRequirement, true
	}
	t.custom = n.custom
	if len(o.Custom) > 0 {
		t.custom = n.custom.And(o.Custom)
		if !j.haveLabels(n) {
			return model.RuleRequirement, true
		}
	}
	for _, want := range v.relaxation.shape.HostPorts {
		if want.Port > 0 && slices.ContainsFunc(n.ports, want.Conflicts) {
			return model.RuleHostPort, true
		}
	}
	if !n.zones.Intersects(o.Zones) || !n.capacity.Intersects(o.Capacity) {
		return model.RuleRequirement, true
	}
	var zonesOK, capacityOK bool
	t.zones, zonesOK = intersect(t.zones, n.zones, o.zonesNow)
	t.capacity, capacityOK = intersect(t.capacity, n.capacity, o.capacityNow)
	if !zonesOK || !capacityOK {
		return v.topologyRule(), false
	}
	if rule, final := j.joinDomains(v, i, n); rule != "" {
		return rule, final
	}
	return j.fitTypes(v, n)
}

// haveLabels keeps the types that have the labels that all pods need together, and reports whether there are any.
func (j *joiner) haveLabels(n *node) bool {
	t, view := &j.trial, j.fleet.pools.list[n.view].view
	for _, r := range t.custom {
		if !view.OfTypes(r.Key) {
			continue
		}
		for x := range t.types.All() {
			if !view.TypeAllows(x, r) {
				t.types.Remove(x)
			}
		}
	}
	return !t.types.Empty()
}

// joinDomains applies each constraint. A constraint that decides its domain takes the emptiest.
func (j *joiner) joinDomains(v *variant, i int, n *node) (model.Rule, bool) {
	demands := v.relaxation.demands
	for x := range v.all {
		c := &v.all[x]
		of := j.fleet.pools.topology(n.view, c.topology)
		ok := true
		switch of.source {
		case byHost:
			if !j.fleet.allowsHost(v, c, i) {
				return c.rule(), c.need != nearPods
			}
		case byZone:
			ok = !v.decides(c) || j.decide(demands, c, of, n, j.trial.zones)
		case byCapacity:
			ok = !v.decides(c) || j.decide(demands, c, of, n, j.trial.capacity)
		case byType:
			ok = j.joinTypes(v, c, of, n)
		case byCustom:
			ok = j.joinCustom(v, c, of, n)
		}
		if !ok {
			return c.rule(), false
		}
	}
	return "", false
}

// joinTypes keeps the types whose domain is allowed, or those of the emptiest domain.
func (j *joiner) joinTypes(v *variant, c *constraint, of *topology, n *node) bool {
	t, chosen := &j.trial, int32(-1)
	for i := range t.types.All() {
		d := of.domains[i]
		switch {
		case d < 0 && c.need == apartFrom:
		case d < 0, !j.fleet.allows(v, c, d):
			t.types.Remove(i)
		case chosen < 0 || j.fleet.at(c.counter, d) < j.fleet.at(c.counter, chosen):
			chosen = d
		}
	}
	if !v.decides(c) {
		return !t.types.Empty()
	}
	keepDomain(t.types, of, chosen)
	return !t.types.Empty() && j.carries(c, of, n, chosen)
}

// keepDomain keeps the types of one domain.
func keepDomain(types rules.Bits, of *topology, domain int32) {
	for i := range types.All() {
		if of.domains[i] != domain {
			types.Remove(i)
		}
	}
}

// joinCustom keeps the values of a custom label that are allowed, or the emptiest.
func (j *joiner) joinCustom(v *variant, c *constraint, of *topology, n *node) bool {
	t := &j.trial
	have, chosen := t.custom.Get(of.key)
	var values []string
	best, open := int32(-1), 0
	for i, d := range of.domains {
		if chosen && !have.Has(of.values[i]) {
			continue
		}
		open++
		switch {
		case !j.fleet.allows(v, c, d):
		case !v.decides(c):
			values = append(values, of.values[i])
		case best < 0 || j.fleet.at(c.counter, d) < j.fleet.at(c.counter, best):
			best, values = d, []string{of.values[i]}
		}
	}
	if len(values) > 0 && len(values) < open {
		t.custom = t.custom.And(model.Requirements{model.OneOf(of.key, values...)})
	}
	return len(values) > 0 && (best < 0 || j.carries(c, of, n, best))
}

// decide keeps only the zone or capacity type with the fewest pods, or of equal ones the one with the cheapest
// offering. set is the trial's set of either; demands is what is added to the node's load.
func (j *joiner) decide(demands []demand, c *constraint, of *topology, n *node, set rules.Bits) bool {
	best := set.Next(0)
	if best >= 0 && set.Next(best+1) >= 0 {
		j.reach(demands, n)
		prices := j.trial.zonePrices
		if of.source == byCapacity {
			prices = j.trial.capacityPrices
		}
		best = set.Next(0)
		for i := range set.All() {
			a, b := j.fleet.at(c.counter, of.domains[i]), j.fleet.at(c.counter, of.domains[best])
			if a < b || a == b && prices[i] < prices[best] {
				best = i
			}
		}
	}
	if best < 0 || !j.carries(c, of, n, of.domains[best]) {
		return false
	}
	clear(set)
	set.Set(best)
	return true
}

// reach keeps the zones and capacity types in which some type that holds the load is available, and finds the lowest
// price of each. If there is none, it keeps all: fitTypes finds the reason.
func (j *joiner) reach(demands []demand, n *node) {
	t, pool := &j.trial, j.fleet.pools.list[n.view]
	t.zonePrices = unreached(t.zonePrices, len(pool.view.Zones))
	t.capacityPrices = unreached(t.capacityPrices, len(pool.view.Capacities))
	found := false
	for i := range t.types.All() {
		if !holds(&pool.view.Net[i], &n.load, demands) {
			continue
		}
		for _, o := range pool.offers[i] {
			if t.zones.Has(o.Zone) && t.capacity.Has(o.Capacity) {
				t.zonePrices[o.Zone] = min(t.zonePrices[o.Zone], o.Price)
				t.capacityPrices[o.Capacity] = min(t.capacityPrices[o.Capacity], o.Price)
				found = true
			}
		}
	}
	if !found {
		return
	}
	removeUnreached(t.zones, t.zonePrices)
	removeUnreached(t.capacity, t.capacityPrices)
}

// unreached returns n prices that no offering has.
func unreached(list []model.Price, n int) []model.Price {
	list = list[:0]
	for range n {
		list = append(list, math.MaxInt64)
	}
	return list
}

func removeUnreached(set rules.Bits, prices []model.Price) {
	for i, price := range prices {
		if price == math.MaxInt64 {
			set.Remove(i)
		}
	}
}

// carries reports whether a spread allows the domain for all pods of the node, whose domain is decided with it.
func (j *joiner) carries(c *constraint, of *topology, n *node, domain int32) bool {
	f := j.fleet
	if c.need != balance || len(n.shapes) == 0 {
		return true
	}
	f.domains = of.possible(f.domains[:0], n.types, n.zones, n.capacity, n.custom)
	if len(f.domains) < 2 || !f.counter(c.counter).includes(n) {
		return true
	}
	carried := int64(0)
	for _, sc := range n.shapes {
		if f.isAbout(c.counter, sc.Shape) {
			carried += int64(sc.N)
		}
	}
	return int64(f.at(c.counter, domain))+carried+int64(c.self)-int64(c.least) <= int64(c.skew)
}

// fitTypes keeps the types that hold the load with the pod, have an offering, and can attach the volumes.
func (j *joiner) fitTypes(v *variant, n *node) (model.Rule, bool) {
	t, pool, shape := &j.trial, j.fleet.pools.list[n.view], v.relaxation.shape
	t.pairs = pool.pairs(t.pairs, t.zones, t.capacity)
	fits, offered, ports := false, false, false
	for _, r := range j.fleet.active {
		t.most[r] = math.MinInt64
	}
	for i := range t.types.All() {
		if !holds(&pool.view.Net[i], &n.load, v.relaxation.demands) {
			t.types.Remove(i)
			continue
		}
		fits = true
		if !pool.available[i].Intersects(t.pairs) {
			t.types.Remove(i)
			continue
		}
		offered = true
		if len(shape.HostPorts) > 0 && !pool.view.DaemonPortsAllow(shape.HostPorts, i) {
			t.types.Remove(i)
			continue
		}
		ports = true
		if len(shape.Volumes) > 0 && !j.attaches(&pool.view.Pool.Types[i], n.volumes, shape.Volumes) {
			t.types.Remove(i)
			continue
		}
		for _, r := range j.fleet.active {
			t.most[r] = max(t.most[r], pool.view.Net[i][r])
		}
	}
	switch {
	case !fits:
		return model.RuleResource, true
	case !offered:
		return model.RuleCapacity, slices.Equal(t.zones, n.zones) && slices.Equal(t.capacity, n.capacity)
	case !ports:
		return model.RuleHostPort, true
	case t.types.Empty():
		return model.RuleVolumeLimit, true
	case !n.relaxed && len(pool.view.MinValues) > 0 && !j.keepsMinValues(pool.view):
		return model.RuleMinValues, false
	}
	return "", false
}

func holds(net, load *model.Resources, demands []demand) bool {
	for i := range demands {
		r := demands[i].resource
		if demands[i].amount > net[r]-load[r] {
			return false
		}
	}
	return true
}

func (j *joiner) keepsMinValues(v *rules.View) bool {
	t := &j.trial
	types := slices.Collect(t.types.All())
	_, _, short := v.ShortOfValues(types, rules.OfferSet{Zones: t.zones, Capacity: t.capacity})
	return !short
}

// attaches reports whether a node of the type can take the volumes it has and these.
func (j *joiner) attaches(t *model.InstanceType, have []*model.Volume, more []model.Volume) bool {
	drivers := j.fleet.volumes.names
	for i := range t.AttachLimits {
		limit := &t.AttachLimits[i]
		ids := map[string]bool{}
		fresh := false
		for _, v := range have {
			if drivers[v.ID] == limit.Driver {
				ids[v.ID] = true
			}
		}
		for k := range more {
			if v := &more[k]; drivers[v.ID] == limit.Driver && !ids[v.ID] {
				ids[v.ID], fresh = true, true
			}
		}
		if fresh && int64(len(ids)) > limit.Max {
			return false
		}
	}
	return true
}

// settle decides the domains that anti-affinities of a node's pods left open.
func (j *joiner) settle(i int) {
	f, t := j.fleet, &j.trial
	n := f.nodes[i]
	for _, sc := range n.shapes {
		for _, counter := range f.state.AntiAffinityCounters(sc.Shape) {
			of := f.pools.topology(n.view, f.state.CounterTopology(counter))
			f.domains = of.possible(f.domains[:0], n.types, n.zones, n.capacity, n.custom)
			if len(f.domains) < 2 {
				continue
			}
			c := newConstraint(f.state, apartFrom, counter)
			t.types = append(t.types[:0], n.types...)
			t.zones = append(t.zones[:0], n.zones...)
			t.capacity = append(t.capacity[:0], n.capacity...)
			t.custom = n.custom
			f.recordAll(i, -1)
			j.keepOne(&c, of, n)
			n.adopt(t)
			f.recordAll(i, 1)
		}
	}
}

// keepOne keeps one domain in the trial: the zone or capacity type that decide chooses, or the first type or value.
func (j *joiner) keepOne(c *constraint, of *topology, n *node) {
	t, pool := &j.trial, j.fleet.pools.list[n.view]
	switch of.source {
	case byZone:
		j.decide(nil, c, of, n, t.zones)
	case byCapacity:
		j.decide(nil, c, of, n, t.capacity)
	case byType:
		keepDomain(t.types, of, of.domains[t.types.Next(0)])
	case byCustom:
		have, chosen := t.custom.Get(of.key)
		for _, value := range of.values {
			if !chosen || have.Has(value) {
				t.custom = t.custom.And(model.Requirements{model.OneOf(of.key, value)})
				break
			}
		}
	}
	t.pairs = pool.pairs(t.pairs, t.zones, t.capacity)
	for x := range t.types.All() {
		if !pool.available[x].Intersects(t.pairs) {
			t.types.Remove(x)
		}
	}
}

// intersect puts the members of both a and b into the memory of into, and reports whether there are any.
func intersect(into, a, b rules.Bits) (rules.Bits, bool) {
	into = append(into[:0], a...)
	into.Keep(b)
	return into, !into.Empty()
}
