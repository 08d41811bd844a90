package firstfit

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// relaxation is a shape with its preferences, dropped one by one: the first variant has all of them, the last none.
type relaxation struct {
	shape    *model.Shape
	demands  []demand
	steps    []preferences
	variants []*variant // by step; nil until it is tried
}

// demand is an amount of a resource, above 0.
type demand struct {
	resource int
	amount   int64
}

func demandsOf(r model.Resources) []demand {
	var out []demand
	for i, amount := range r {
		if amount > 0 {
			out = append(out, demand{i, amount})
		}
	}
	return out
}

// preferences are what a variant requires beyond what the shape requires.
type preferences struct {
	term   int // of AnyOf; below 0 = any of them
	near   []model.PodPreference
	apart  []model.PodPreference
	labels []model.Preference
	spread []model.Spread
	soft   bool // PreferNoSchedule taints are tolerated
}

// variant is a shape at one step of its relaxation, and what is known about it.
type variant struct {
	relaxation *relaxation
	shape      int
	preferences
	wants      []model.Requirements // of existing nodes, one must hold; nil = the State's rules suffice
	own        []constraint
	all        []constraint // own ones and those of other pods
	affinities []affinity
	options    [][]option // by view

	nodes    rules.Bits // positions in Packer.nodes that have not refused for good
	refused  rules.Bits // planned nodes that have
	prepared int        // version at which options were narrowed; -1 = never
	dead     bool       // no option is possible
	failedAt [2]int     // version and number of planned nodes when no new node was possible
	rule     model.Rule // why
}

// option is a way to run in a pool, with the zones and capacity types that topologies leave it now.
type option struct {
	*rules.Option
	zonesNow, capacityNow rules.Bits
	possible              bool
}

// variants makes the variants of shapes.
type variants struct {
	s       *model.Snapshot
	policy  *model.Policy
	state   *rules.State
	pools   *poolSet
	soft    bool // some taint is PreferNoSchedule
	nodes   int  // existing nodes that are tried
	byShape []*relaxation
}

// of returns the relaxation of a shape.
func (x *variants) of(shape int) *relaxation {
	if x.byShape[shape] == nil {
		s := &x.s.Shapes[shape]
		r := &relaxation{shape: s, demands: demandsOf(s.Requests.NonNegative()), steps: x.steps(s)}
		r.variants = make([]*variant, len(r.steps))
		x.byShape[shape] = r
	}
	return x.byShape[shape]
}

// steps returns the preferences from all to none, in Karpenter's order: another term of the required affinity, then
// without pods to be near, pods to be apart from, labels and spreads, with soft taints tolerated, and at last with
// any term of the required affinity. Heavier preferences are dropped first.
func (x *variants) steps(s *model.Shape) []preferences {
	p := preferences{}
	if len(s.AnyOf) == 0 {
		p.term = -1
	}
	if x.policy.Preferences != model.Ignore {
		p.addAll(s)
	}
	out := []preferences{p}
	step := func(change func()) {
		change()
		out = append(out, p)
	}
	for p.term >= 0 && p.term < len(s.AnyOf)-1 {
		step(func() { p.term++ })
	}
	for len(p.near) > 0 {
		step(func() { p.near = p.near[1:] })
	}
	for len(p.apart) > 0 {
		step(func() { p.apart = p.apart[1:] })
	}
	for len(p.labels) > 0 {
		step(func() { p.labels = p.labels[1:] })
	}
	for len(p.spread) > 0 {
		step(func() { p.spread = p.spread[1:] })
	}
	if x.soft {
		step(func() { p.soft = true })
	}
	if len(s.AnyOf) > 1 {
		step(func() { p.term = -1 })
	}
	return out
}

func (p *preferences) addAll(s *model.Shape) {
	for _, pref := range s.PreferredPods {
		if pref.Weight > 0 {
			p.near = append(p.near, pref)
		} else {
			p.apart = append(p.apart, pref)
		}
	}
	slices.SortStableFunc(p.near, func(a, b model.PodPreference) int { return int(b.Weight) - int(a.Weight) })
	slices.SortStableFunc(p.apart, func(a, b model.PodPreference) int { return int(a.Weight) - int(b.Weight) })
	p.labels = slices.Clone(s.Preferred)
	slices.SortStableFunc(p.labels, func(a, b model.Preference) int { return int(b.Weight) - int(a.Weight) })
	for _, c := range s.Spread {
		if !c.Hard {
			p.spread = append(p.spread, c)
		}
	}
}

// variant returns the i-th variant of a shape.
func (x *variants) variant(shape, i int) *variant {
	r := x.of(shape)
	if r.variants[i] == nil {
		v := &variant{
			relaxation: r, shape: shape, preferences: r.steps[i], nodes: rules.FullBits(x.nodes),
			prepared: -1, failedAt: [2]int{-1, -1},
		}
		x.addTerms(v)
		x.addOptions(v)
		r.variants[i] = v
	}
	return r.variants[i]
}

// addTerms adds affinities and spreads, required and preferred.
func (x *variants) addTerms(v *variant) {
	near, alone := x.state.AffinityCounters(v.shape)
	x.addAffinity(v, near, alone)
	for i := range v.near {
		c, self := x.state.PodTerm(v.shape, &v.near[i].PodTerm)
		x.addAffinity(v, []int{c}, self)
	}
	wide := x.policy.Solver == model.FirstFit
	for _, c := range x.state.AntiAffinityCounters(v.shape) {
		v.own = append(v.own, antiAffinity(x.state, c, wide))
	}
	for i := range v.apart {
		c, _ := x.state.PodTerm(v.shape, &v.apart[i].PodTerm)
		v.own = append(v.own, antiAffinity(x.state, c, wide))
	}
	hard := x.state.SpreadTerms(v.shape)
	spreads := v.relaxation.shape.Spread
	for i := range spreads {
		if spreads[i].Hard {
			x.addSpread(v, &spreads[i], hard[0])
			hard = hard[1:]
		}
	}
	for i := range v.spread {
		x.addSpread(v, &v.spread[i], x.state.SoftSpread(v.shape, &v.spread[i]))
	}
}

func (x *variants) addAffinity(v *variant, counters []int, alone bool) {
	if len(counters) == 0 {
		return
	}
	for _, counter := range counters {
		c := newConstraint(x.state, nearPods, counter)
		c.affinity = len(v.affinities)
		v.own = append(v.own, c)
	}
	v.affinities = append(v.affinities, affinity{counters: counters, alone: alone})
}

func (x *variants) addSpread(v *variant, spread *model.Spread, t rules.SpreadTerm) {
	c := newConstraint(x.state, balance, t.Counter)
	c.self, c.skew, c.minDomains = int32(t.Self), int32(t.MaxSkew), t.MinDomains
	if !c.host {
		c.universe = x.universe(v.relaxation.shape, spread, &c)
	}
	v.own = append(v.own, c)
}

// universe returns the domains over which pods are spread: those of nodes, and those that the pools could add.
func (x *variants) universe(s *model.Shape, spread *model.Spread, c *constraint) []int32 {
	out := x.state.SpreadDomains(c.counter)
	s = s.Scheduled()
	for i, pool := range x.pools.list {
		p := pool.view.Pool
		if _, bad := model.Untolerated(p.Taints, s.Tolerations); p.NotReady != "" || bad && spread.Untainted {
			continue
		}
		required, anyOf := s.Required, s.AnyOf
		if spread.AnyNode {
			required, anyOf = nil, nil
		}
		t := x.pools.topology(i, c.topology)
		for _, o := range pool.optionsFor(required, anyOf) {
			for _, d := range t.possible(nil, o.Types, o.Zones, o.Capacity, o.Custom) {
				out = addOnce(out, d)
			}
		}
	}
	return out
}

// addOptions adds the options of the variant in each pool, and its requirements on existing nodes beyond the shape's.
func (x *variants) addOptions(v *variant) {
	s := v.relaxation.shape
	wants, anyOf := s.Required, s.AnyOf
	if v.term >= 0 {
		wants, anyOf = wants.And(s.AnyOf[v.term]), nil
	}
	if len(v.labels) > 0 {
		wants = wants.And(v.labels[0].Terms)
	}
	if v.term >= 0 && len(s.AnyOf) > 1 || len(v.labels) > 0 {
		v.wants = rules.Alternatives(wants, anyOf)
	}
	const limit = 64
	if all := rules.Reaching(anyOf, s.Volumes); len(s.Volumes) > 0 {
		anyOf = all[:min(len(all), limit)]
	}
	v.options = make([][]option, len(x.pools.list))
	for i, pool := range x.pools.list {
		if pool.view.Pool.NotReady != "" || !v.tolerates(pool.view.Pool.Taints) {
			continue
		}
		for _, o := range pool.optionsFor(wants, anyOf) {
			v.options[i] = append(v.options[i], option{Option: o})
		}
	}
}

// tolerates reports whether the taints admit the variant. A soft taint keeps it away too, until that preference is
// dropped.
func (v *variant) tolerates(taints []model.Taint) bool {
	_, bad := model.Untolerated(taints, v.relaxation.shape.Tolerations)
	return !bad && v.toleratesSoft(taints)
}

// toleratesSoft is tolerates for PreferNoSchedule taints alone.
func (v *variant) toleratesSoft(taints []model.Taint) bool {
	return v.soft || !rules.Avoided(taints, v.relaxation.shape.Tolerations)
}
