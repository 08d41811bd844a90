package pack

import (
	"cmp"
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

// machine is a load with the types that can bear it.
type machine struct {
	view     int
	takes    []take
	custom   model.Requirements
	zones    []bool
	capacity []bool
	load     model.Resources // of the pods
	types    []int           // cheapest first
	largest  model.Resources // of the types' capacities
	chosen   model.Candidate
	typ      int // of the chosen
	runnerUp model.Candidate
}

// way is one offering that can bear a load.
type way struct {
	typ   int
	offer rules.Offer
}

// build finds all types which can bear the pods, within what the limits leave. It fails if minValues cannot be kept.
func (p *problem) build(view int, takes []take) (machine, bool) {
	v := p.views[view]
	m := machine{view: view, takes: takes, zones: allTrue(len(v.Zones)), capacity: allTrue(len(v.Capacities))}
	for _, t := range takes {
		o := &p.classes[t.group.class].options[view][t.opt]
		and(m.zones, o.Zones)
		and(m.capacity, o.Capacity)
		m.custom = m.custom.And(o.Custom)
		m.load = m.load.Plus(t.group.request.Times(int64(t.n)))
	}
	ways := p.ways(&m)
	if len(ways) == 0 {
		return m, false
	}
	best := ways[0]
	m.typ, m.chosen = best.typ, candidateOf(v, best)
	for _, w := range ways[1:] {
		if w.typ != best.typ {
			m.runnerUp = candidateOf(v, w)
			break
		}
	}
	ok := p.alternatives(&m, ways)
	for _, t := range m.types {
		m.largest = m.largest.Max(v.Pool.Types[t].Capacity)
	}
	return m, ok
}

// ways are the cheapest offerings of each type that bears the load, cheapest first; of equally cheap ones what the pods
// prefer first.
func (p *problem) ways(m *machine) []way {
	v := p.views[m.view]
	var out []way
	for t := range v.Net {
		if !p.openTo(m, t) || !m.load.Fits(v.Net[t]) || !p.rooms[m.view].Allows(&v.Pool.Limits, &v.Pool.Types[t].Capacity) {
			continue
		}
		if f, ok := cheapestOf(v, t, m.zones, m.capacity); ok {
			out = append(out, way{typ: t, offer: f})
		}
	}
	slices.SortStableFunc(out, func(a, b way) int { return cmp.Compare(a.offer.Price, b.offer.Price) })
	p.prefer(m, out)
	return out
}

// openTo reports whether every pod of the machine may run on the type.
func (p *problem) openTo(m *machine, typ int) bool {
	for _, t := range m.takes {
		if !p.classes[t.group.class].options[m.view][t.opt].Types.Has(typ) {
			return false
		}
	}
	return true
}

// prefer moves, among the cheapest ways, the one that satisfies most preferences to the front.
func (p *problem) prefer(m *machine, ways []way) {
	if len(ways) == 0 || !slices.ContainsFunc(m.takes, func(t take) bool { return len(t.group.shape.Preferred) > 0 }) {
		return
	}
	v := p.views[m.view]
	least := ways[0].offer.Price
	best, bestScore := way{}, int64(-1<<62)
	for _, w := range ways {
		if w.offer.Price > least {
			break
		}
		for _, f := range v.Offers[w.typ] {
			if f.Price > least || !f.Available || !m.zones[f.Zone] || !m.capacity[f.Capacity] {
				continue
			}
			if score := p.score(m, v.LabelsOf(w.typ, f)); score > bestScore {
				best, bestScore = way{typ: w.typ, offer: f}, score
			}
		}
	}
	i := slices.IndexFunc(ways, func(w way) bool { return w.typ == best.typ })
	copy(ways[1:i+1], ways[:i])
	ways[0] = best
}

func (p *problem) score(m *machine, labels model.Requirements) int64 {
	labels = labels.And(m.custom)
	var sum int64
	for _, t := range m.takes {
		sum += int64(t.n) * rules.Score(t.group.shape.Preferred, labels)
	}
	return sum
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
	return ok
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
		if w.offer.Price*100 <= most {
			cheap = i + 1
		}
	}
	return v.WithMinValues(types, cheap, p.maxTypes, m.zones, m.capacity)
}

// shrinkToFit builds the machine, with fewer pods if minValues want more types than bear them all.
func (p *problem) shrinkToFit(f fill) (machine, bool) {
	m, ok := p.build(f.candidate.view, f.takes)
	if ok {
		return m, true
	}
	seed := f.takes[0]
	for {
		if m, ok = p.build(f.candidate.view, []take{seed}); ok || seed.n <= 1 {
			return m, ok
		}
		seed.n /= 2
	}
}

func and(into, other []bool) {
	for i := range into {
		into[i] = into[i] && other[i]
	}
}

func allTrue(n int) []bool {
	out := make([]bool, n)
	for i := range out {
		out[i] = true
	}
	return out
}
