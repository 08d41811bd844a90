package firstfit

import (
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// pool is a view in the form of bits. A pair is a zone with a capacity type.
type pool struct {
	v          *rules.View
	offered    []rules.Bits               // by type: pairs that can be had now
	ways       [][]rules.Offer            // by type: what can be had now, at what it counts for
	admitted   rules.Bits                 // types that the policy admits
	within     rules.Bits                 // of those, types that the limits still allow; nil if to be found anew
	zones      rules.Bits                 // all
	capacity   rules.Bits                 // all
	ofTopology []ofTopology               // by topology
	options    map[string][]*rules.Option // by what is wanted
}

// kind says what decides a label of a machine.
type kind uint8

const (
	notKnown kind = iota
	absent        // the pool's machines do not have the label
	open          // the label may get any value
	byHost
	byZone
	byCapacity
	byType
	byCustom
)

// ofTopology is how a pool's machines get a label.
type ofTopology struct {
	kind    kind
	key     string
	domains []int32 // by zone, capacity type, type or value of the pool's requirement; below 0 if there is none
	values  []string
}

func newPool(v *rules.View, policy *model.Policy) *pool {
	p := &pool{
		v: v, offered: make([]rules.Bits, len(v.Offers)), ways: make([][]rules.Offer, len(v.Offers)), admitted: rules.NewBits(len(v.Offers)),
		zones: filled(len(v.Zones)), capacity: filled(len(v.Capacities)), options: map[string][]*rules.Option{},
	}
	for t, offers := range v.Offers {
		p.offered[t] = rules.NewBits(len(v.Zones) * len(v.Capacities))
		for _, o := range offers {
			if o.Available {
				p.offered[t].Set(o.Zone*len(v.Capacities) + o.Capacity)
				p.ways[t] = append(p.ways[t], o)
			}
		}
		if v.Eligible.Has(t) && policy.Admits(&v.Pool.Types[t].Capacity) {
			p.admitted.Set(t)
		}
	}
	return p
}

// allowed are the types that the room of the pool's limits still allows.
func (p *pool) allowed(room *rules.Headroom) rules.Bits {
	if p.within == nil {
		p.within = rules.NewBits(len(p.v.Offers))
		for t := range p.v.Pool.Types {
			if p.admitted.Has(t) && room.Allows(&p.v.Pool.Limits, &p.v.Pool.Types[t].Capacity) {
				p.within.Set(t)
			}
		}
	}
	return p.within
}

// pairs are those of the zones and capacity types.
func (p *pool) pairs(into, zones, capacity rules.Bits) rules.Bits {
	n := len(p.v.Capacities)
	into = cleared(into, len(p.v.Zones)*n)
	for z := range p.v.Zones {
		if !zones.Has(z) {
			continue
		}
		for c := range n {
			if capacity.Has(c) {
				into.Set(z*n + c)
			}
		}
	}
	return into
}

// topology says how the pool's machines get the topology's label.
func (p *Packer) topology(view, topology int) *ofTopology {
	pool := p.pools[view]
	for len(pool.ofTopology) <= topology {
		pool.ofTopology = append(pool.ofTopology, ofTopology{})
	}
	t := &pool.ofTopology[topology]
	if t.kind == notKnown {
		*t = p.describe(pool.v, topology)
	}
	return t
}

func (p *Packer) describe(v *rules.View, topology int) ofTopology {
	t := ofTopology{key: p.st.TopologyKey(topology)}
	switch {
	case t.key == model.LabelHostname:
		t.kind = byHost
	case t.key == model.LabelZone:
		t.kind, t.values = byZone, v.Zones
	case t.key == model.LabelCapacityType:
		t.kind, t.values = byCapacity, v.Capacities
	case v.OfTypes(t.key):
		return p.describeTypes(v, topology, t)
	default:
		have, ok := v.Requirements.Get(t.key)
		switch {
		case !ok || have.IsDoesNotExist():
			t.kind = absent
		case have.Complement:
			t.kind = open
		default:
			t.kind, t.values = byCustom, have.Values
		}
	}
	for _, value := range t.values {
		t.domains = append(t.domains, p.st.Domain(topology, value))
	}
	return t
}

func (p *Packer) describeTypes(v *rules.View, topology int, t ofTopology) ofTopology {
	t.kind = byType
	for i := range v.Pool.Types {
		domain := int32(-1)
		if have, ok := rules.TypeLabel(&v.Pool.Types[i], t.key); ok && !have.Complement && len(have.Values) == 1 {
			domain = p.st.Domain(topology, have.Values[0])
		}
		t.domains = append(t.domains, domain)
	}
	return t
}
