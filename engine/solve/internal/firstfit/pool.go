package firstfit

import (
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// pool is a view as bit sets. A pair is a zone with a capacity type.
type pool struct {
	view       *rules.View
	available  []rules.Bits    // by type: pairs available now
	offers     [][]rules.Offer // by type: those available now
	admitted   rules.Bits      // types that the pool's requirements allow
	within     rules.Bits      // of those, types that the limits still allow; nil = must be recomputed
	zones      rules.Bits      // all
	capacity   rules.Bits      // all
	topologies []topology
	options    map[string][]*rules.Option // by requirements
}

func newPool(v *rules.View) *pool {
	n := len(v.Offers)
	p := &pool{
		view: v, available: make([]rules.Bits, n), offers: make([][]rules.Offer, n), admitted: rules.NewBits(n),
		zones: rules.FullBits(len(v.Zones)), capacity: rules.FullBits(len(v.Capacities)),
		options: map[string][]*rules.Option{},
	}
	for t, offers := range v.Offers {
		p.available[t] = rules.NewBits(len(v.Zones) * len(v.Capacities))
		for _, o := range offers {
			if o.Available {
				p.available[t].Set(o.Zone*len(v.Capacities) + o.Capacity)
				p.offers[t] = append(p.offers[t], o)
			}
		}
		if v.Eligible.Has(t) {
			p.admitted.Set(t)
		}
	}
	return p
}

// pairs returns those of the zones and capacity types, in the memory of into.
func (p *pool) pairs(into, zones, capacity rules.Bits) rules.Bits {
	n := len(p.view.Capacities)
	into = into[:0]
	for range (len(p.view.Zones)*n + 63) / 64 {
		into = append(into, 0)
	}
	for z := range zones.All() {
		for c := range capacity.All() {
			into.Set(z*n + c)
		}
	}
	return into
}

// optionsFor returns the view's options, and remembers them: many shapes have the same requirements.
func (p *pool) optionsFor(wants model.Requirements, anyOf []model.Requirements) []*rules.Option {
	key := wants.String()
	for _, a := range anyOf {
		key += " | " + a.String()
	}
	if out, known := p.options[key]; known {
		return out
	}
	var out []*rules.Option
	for _, o := range p.view.Options(wants, anyOf) {
		out = append(out, &o)
	}
	p.options[key] = out
	return out
}

// poolSet is the pools with what their limits leave.
type poolSet struct {
	state *rules.State
	list  []*pool
	rooms []rules.Headroom
}

// allowed returns the types that the pool's limits still allow.
func (x *poolSet) allowed(view int) rules.Bits {
	p, room := x.list[view], &x.rooms[view]
	if p.within == nil {
		p.within = rules.NewBits(len(p.view.Offers))
		for t := range p.admitted.All() {
			if room.Allows(&p.view.Pool.Limits, &p.view.Pool.Types[t].Capacity) {
				p.within.Set(t)
			}
		}
	}
	return p.within
}

// charge subtracts the largest capacity that a new node may have from the pool's limits.
func (x *poolSet) charge(view int, types rules.Bits) {
	p := x.list[view]
	limits := &p.view.Pool.Limits
	var largest model.Resources
	if rules.Limited(limits) {
		for t := range types.All() {
			largest = largest.Max(p.view.Pool.Types[t].Capacity)
		}
	}
	x.rooms[view] = x.rooms[view].Minus(largest)
	if rules.Limited(limits) || limits.NodesSet {
		p.within = nil
	}
}

// closed returns why a pool cannot launch any node for the variant; "" if it may.
func (x *poolSet) closed(v *variant, view int) model.Rule {
	p := x.list[view].view.Pool
	switch {
	case p.NotReady != "":
		return model.RulePoolNotReady
	case !v.tolerates(p.Taints):
		return model.RuleTaint
	case len(v.options[view]) == 0:
		return model.RuleRequirement
	case x.allowed(view).Empty():
		return model.RuleLimit
	}
	return ""
}

// labelSource is what decides a label of a pool's nodes.
type labelSource uint8

const (
	notKnown labelSource = iota
	absent               // the nodes do not have the label
	open                 // the label may get any value
	byHost
	byZone
	byCapacity
	byType
	byCustom
)

// topology is how a pool's nodes get a topology's label.
type topology struct {
	source  labelSource
	key     string
	domains []int32 // by zone, capacity type, type or value of the pool's requirement; below 0 if there is none
	values  []string
}

// topology returns how the pool's nodes get the topology's label.
func (x *poolSet) topology(view, index int) *topology {
	p := x.list[view]
	for len(p.topologies) <= index {
		p.topologies = append(p.topologies, topology{})
	}
	t := &p.topologies[index]
	if t.source == notKnown {
		*t = x.describe(p.view, index)
	}
	return t
}

func (x *poolSet) describe(v *rules.View, index int) topology {
	t := topology{key: x.state.TopologyKey(index)}
	switch {
	case t.key == model.LabelHostname:
		t.source = byHost
	case t.key == model.LabelZone:
		t.source, t.values = byZone, v.Zones
	case t.key == model.LabelCapacityType:
		t.source, t.values = byCapacity, v.Capacities
	case v.OfTypes(t.key):
		t.source = byType
		for i := range v.Pool.Types {
			domain := int32(-1)
			have, ok := rules.TypeLabel(&v.Pool.Types[i], t.key)
			if ok && !have.Complement && len(have.Values) == 1 {
				domain = x.state.Domain(index, have.Values[0])
			}
			t.domains = append(t.domains, domain)
		}
	default:
		have, ok := v.Requirements.Get(t.key)
		switch {
		case !ok || have.IsDoesNotExist():
			t.source = absent
		case have.Complement:
			t.source = open
		default:
			t.source, t.values = byCustom, have.Values
		}
	}
	for _, value := range t.values {
		t.domains = append(t.domains, x.state.Domain(index, value))
	}
	return t
}

// possible appends the domains in which a node may end up.
func (t *topology) possible(out []int32, types, zones, capacity rules.Bits, custom model.Requirements) []int32 {
	switch t.source {
	case byZone, byCapacity:
		set := zones
		if t.source == byCapacity {
			set = capacity
		}
		for i, d := range t.domains {
			if set.Has(i) {
				out = append(out, d)
			}
		}
	case byType:
		for i := range types.All() {
			out = addOnce(out, t.domains[i])
		}
	case byCustom:
		chosen, ok := custom.Get(t.key)
		for i, d := range t.domains {
			if !ok || chosen.Has(t.values[i]) {
				out = append(out, d)
			}
		}
	}
	return out
}

func addOnce(out []int32, d int32) []int32 {
	if d < 0 {
		return out
	}
	for _, o := range out {
		if o == d {
			return out
		}
	}
	return append(out, d)
}
