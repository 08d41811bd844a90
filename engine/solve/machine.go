package solve

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// Alternatives dearer than muchDearer hundredths of the chosen one are left out of a launch. Where fewer than fewTypes
// would remain they may cost up to tooDear: flexibility helps against capacity that runs out, but not at any price.
const (
	muchDearer = 150
	tooDear    = 400
	fewTypes   = 5
)

// take is some pods of a group on a machine, with the class and the option by which they may run there.
type take struct {
	group         *group
	n             int
	class, option int // option -1: engine/solve/internal/firstfit found the place
}

// machine is a load with the types that can bear it.
type machine struct {
	view     int
	takes    []take
	open     rules.Bits         // types that may bear it
	wants    model.Requirements // of the pods
	custom   model.Requirements
	zones    []bool
	capacity []bool
	load     model.Resources // of the pods
	types    []int           // cheapest first
	largest  model.Resources // of the types' capacities
	chosen   model.Candidate
	typ      int         // of the chosen
	counts   model.Price // effective price of the chosen
	runnerUp model.Candidate
	relax    bool      // minValues may be lowered
	template *template // shared with machines of the same pattern
}

// build finds all types which can bear the pods, within what the limits leave. It fails if minValues cannot be kept, unless
// they may be relaxed.
func (p *problem) build(view int, takes []take, relax bool) (*machine, bool) {
	v := p.views[view]
	m := &machine{view: view, takes: takes, relax: relax, zones: allTrue(len(v.Zones)), capacity: allTrue(len(v.Capacities)), open: slices.Clone(v.Eligible)}
	for _, t := range takes {
		o := &p.classes[t.class].options[view][t.option]
		and(m.zones, o.Zones)
		and(m.capacity, o.Capacity)
		for w := range m.open {
			m.open[w] &= o.Types[w]
		}
		if !rules.Compatible(m.custom, o.Custom) {
			return m, false
		}
		m.custom = m.custom.And(o.Custom)
		m.wants = m.wants.And(o.Wants)
		m.load = m.load.Plus(t.group.request.Times(int64(t.n)))
	}
	return m, p.complete(m)
}

// complete chooses the offering and the types that may stand in.
func (p *problem) complete(m *machine) bool {
	ways := p.ways(m)
	if len(ways) == 0 {
		return false
	}
	v := p.views[m.view]
	for _, key := range p.lookedAt(m) {
		p.fix(m, key, ways[0])
		if ways = p.ways(m); len(ways) == 0 {
			return false
		}
	}
	best := ways[0]
	m.template = &template{}
	m.typ, m.chosen, m.counts = best.typ, candidateOf(v, best), best.offer.Price
	for _, w := range ways[1:] {
		if w.typ != best.typ {
			m.runnerUp = candidateOf(v, w)
			break
		}
	}
	ok := p.alternatives(m, ways)
	m.largest = model.Resources{}
	for _, t := range m.types {
		m.largest = m.largest.Max(v.Pool.Types[t].Capacity)
	}
	return ok
}

// lookedAt are the labels, other than the hostname, by which pods of the machine are near to others or apart from them, or
// others are to them: it must be known what they will be.
func (p *problem) lookedAt(m *machine) []string {
	var out []string
	add := func(topology int) {
		if key := p.state.TopologyKey(topology); key != model.LabelHostname && !slices.Contains(out, key) {
			out = append(out, key)
		}
	}
	for _, t := range m.takes {
		near, _ := p.state.AffinityCounters(t.group.index)
		for _, c := range slices.Concat(near, p.state.AntiAffinityCounters(t.group.index)) {
			add(p.state.CounterTopology(c))
		}
		for _, s := range p.state.SpreadTerms(t.group.index) {
			add(s.Topology)
		}
		for _, c := range p.state.PodCounters(t.group.index) {
			if p.users[int(c)] > 0 {
				add(p.state.CounterTopology(int(c)))
			}
		}
		if len(p.classes[t.group.class].zones) > 0 {
			add(p.state.Topology(model.LabelZone))
		}
	}
	slices.Sort(out)
	return out
}

// fix leaves the machine one value of the label: that of the way.
func (p *problem) fix(m *machine, key string, w way) {
	v := p.views[m.view]
	switch {
	case key == model.LabelZone:
		for z := range m.zones {
			m.zones[z] = z == w.offer.Zone
		}
	case key == model.LabelCapacityType:
		for c := range m.capacity {
			m.capacity[c] = c == w.offer.Capacity
		}
	case v.OfTypes(key):
		have, _ := rules.TypeLabel(&v.Pool.Types[w.typ], key)
		for t := range v.Pool.Types {
			if label, _ := rules.TypeLabel(&v.Pool.Types[t], key); !slices.Equal(label.Values, have.Values) {
				m.open[t/64] &^= 1 << (t % 64)
			}
		}
	default:
		if _, chosen := m.custom.Get(key); !chosen {
			if r, ok := v.Requirements.Get(key); ok {
				m.custom = m.custom.And(model.Requirements{r})
			}
		}
	}
}

// alternatives fills types. Where the pool's limits name resources, larger types would take more of the limits than the
// chosen one does, so they are used only if minValues need them.
func (p *problem) alternatives(m *machine, ways []way) bool {
	v := p.views[m.view]
	limits := &v.Pool.Limits
	within := ways
	if rules.Limited(limits) {
		chosen := &v.Pool.Types[m.typ].Capacity
		within = slices.DeleteFunc(slices.Clone(ways), func(w way) bool {
			return !rules.NoLarger(limits, &v.Pool.Types[w.typ].Capacity, chosen)
		})
	}
	var ok bool
	if m.types, ok = p.chooseTypes(m, within); !ok && len(within) < len(ways) {
		m.types, ok = p.chooseTypes(m, ways)
	}
	return ok || m.relax
}

func (p *problem) chooseTypes(m *machine, ways []way) ([]int, bool) {
	v := p.views[m.view]
	types := make([]int, len(ways))
	cheap := 0
	for i, w := range ways {
		types[i] = w.typ
		most := ways[0].offer.Price * muchDearer
		if i < fewTypes {
			most = ways[0].offer.Price * tooDear
		}
		if w.offer.Price*100 <= most || p.policy.MaxTypes == everyType {
			cheap = i + 1
		}
	}
	return v.WithMinValues(types, cheap, p.maxTypes, m.zones, m.capacity)
}
