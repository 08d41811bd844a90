package firstfit

import (
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// form is a shape at one step of its chain.
type form struct {
	chain  *chain
	shape  int
	wish   wish
	wants  []model.Requirements // of nodes, one must hold; nil = what the State admits will do
	own    []constraint
	all    []constraint // with those of pods that are there
	groups []company
	pools  [][]option // by view

	nodes    rules.Bits // positions in Packer.nodes that were not refused for good
	refused  rules.Bits // machines that were
	prepared int        // version at which the rest was computed; -1 = never
	dead     bool       // no domain is left
	failedAt [2]int     // version and number of machines when there was no place
	rule     model.Rule // why
}

// option is a way to run in a pool, with what topologies leave of its zones and capacity types now.
type option struct {
	*rules.Option
	zones, capacity       rules.Bits
	zonesNow, capacityNow rules.Bits
	possible              bool
}

// need is what a constraint asks of a domain.
type need uint8

const (
	nearPods need = iota
	apartFrom
	balance
)

// constraint is one topology's say.
type constraint struct {
	need
	counter, topology int
	group             int // of near: which company
	self, skew        int32
	minDomains        int
	host              bool
	wide              bool    // of an anti-affinity: the machine's domain need not be known, for it keeps out of all it may be in
	universe          []int32 // domains among which is balanced
	least             int32   // of the universe, now
}

// company are affinity terms that the same pod must satisfy.
type company struct {
	counters []int
	alone    bool // the first pod of the group may go without
	free     bool // it may now, for there is nobody
}

// form is the i-th form of a shape.
func (p *Packer) form(shape, i int) *form {
	c := p.chainOf(shape)
	if c.forms[i] == nil {
		f := &form{chain: c, shape: shape, wish: c.steps[i], nodes: filled(len(p.nodes)), prepared: -1, failedAt: [2]int{-1, -1}}
		p.addTerms(f)
		p.addOptions(f)
		c.forms[i] = f
	}
	return c.forms[i]
}

// addTerms interns the form's affinities and spreads, required and wished for.
func (p *Packer) addTerms(f *form) {
	s := f.chain.shape
	near, alone := p.st.AffinityCounters(f.shape)
	p.addCompany(f, near, alone)
	for i := range f.wish.near {
		c, self := p.st.PodTerm(f.shape, &f.wish.near[i].PodTerm)
		p.addCompany(f, []int{c}, self)
	}
	for _, c := range p.st.AntiAffinityCounters(f.shape) {
		f.own = append(f.own, p.constraint(apartFrom, c))
	}
	for i := range f.wish.apart {
		c, _ := p.st.PodTerm(f.shape, &f.wish.apart[i].PodTerm)
		f.own = append(f.own, p.constraint(apartFrom, c))
	}
	hard := p.st.SpreadTerms(f.shape)
	for i := range s.Spread {
		if s.Spread[i].Hard {
			p.addSpread(f, &s.Spread[i], hard[0])
			hard = hard[1:]
		}
	}
	for i := range f.wish.spread {
		p.addSpread(f, &f.wish.spread[i], p.st.SoftSpread(f.shape, &f.wish.spread[i]))
	}
}

func (p *Packer) constraint(n need, counter int) constraint {
	t := p.st.CounterTopology(counter)
	return constraint{
		need: n, counter: counter, topology: t, host: p.st.TopologyKey(t) == model.LabelHostname,
		wide: n == apartFrom && p.policy.Solver == model.FirstFit,
	}
}

func (p *Packer) addCompany(f *form, counters []int, alone bool) {
	if len(counters) == 0 {
		return
	}
	for _, c := range counters {
		x := p.constraint(nearPods, c)
		x.group = len(f.groups)
		f.own = append(f.own, x)
	}
	f.groups = append(f.groups, company{counters: counters, alone: alone})
}

func (p *Packer) addSpread(f *form, c *model.Spread, t rules.SpreadTerm) {
	x := p.constraint(balance, t.Counter)
	x.self, x.skew, x.minDomains = int32(t.Self), int32(t.MaxSkew), t.MinDomains
	if !x.host {
		x.universe = p.universe(f.chain.shape, c, &x)
	}
	f.own = append(f.own, x)
}

// universe are the domains among which pods are spread: those of nodes, and those that the pools could open.
func (p *Packer) universe(s *model.Shape, c *model.Spread, x *constraint) []int32 {
	out := p.st.SpreadDomains(x.counter)
	for i, pool := range p.pools {
		v := pool.v
		if _, bad := model.Untolerated(v.Pool.Taints, s.Tolerations); v.Pool.NotReady != "" || bad && c.Untainted {
			continue
		}
		required, anyOf := s.Required, s.AnyOf
		if c.AnyNode {
			required, anyOf = nil, nil
		}
		t := p.topology(i, x.topology)
		for _, o := range p.options(pool, required, anyOf) {
			for _, d := range p.possible(nil, t, o.Types, fromBools(o.Zones), fromBools(o.Capacity), o.Custom) {
				out = addOnce(out, d)
			}
		}
	}
	return out
}

// addOptions finds what each pool has for the form, and what it asks of nodes beyond the shape.
func (p *Packer) addOptions(f *form) {
	s := f.chain.shape
	wants, anyOf := s.Required, s.AnyOf
	if f.wish.term >= 0 {
		wants, anyOf = wants.And(s.AnyOf[f.wish.term]), nil
	}
	if len(f.wish.labels) > 0 {
		wants = wants.And(f.wish.labels[0].Terms)
	}
	if f.wish.term >= 0 && len(s.AnyOf) > 1 || len(f.wish.labels) > 0 {
		f.wants = rules.Alternatives(wants, anyOf)
	}
	anyOf = places(anyOf, s.Volumes)
	f.pools = make([][]option, len(p.pools))
	for i, pool := range p.pools {
		v := pool.v
		if v.Pool.NotReady != "" || !f.tolerates(v.Pool.Taints) {
			continue
		}
		for _, o := range p.options(pool, wants, anyOf) {
			f.pools[i] = append(f.pools[i], option{Option: o, zones: fromBools(o.Zones), capacity: fromBools(o.Capacity)})
		}
	}
}

// options are the view's, remembered: many shapes ask the same.
func (p *Packer) options(pool *pool, wants model.Requirements, anyOf []model.Requirements) []*rules.Option {
	text := wants.String()
	for _, a := range anyOf {
		text += " | " + a.String()
	}
	if out, known := pool.options[text]; known {
		return out
	}
	var out []*rules.Option
	for _, o := range pool.v.Options(wants, anyOf) {
		out = append(out, &o)
	}
	pool.options[text] = out
	return out
}

// places combines the alternatives with those of each volume, a few dozen at most.
func places(anyOf []model.Requirements, volumes []model.Volume) []model.Requirements {
	const most = 64
	for i := range volumes {
		topology := volumes[i].Topology
		switch {
		case len(topology) == 0:
			continue
		case len(anyOf) == 0:
			anyOf = topology[:min(len(topology), most)]
			continue
		}
		var both []model.Requirements
		for _, a := range anyOf {
			for _, b := range topology {
				if len(both) < most {
					both = append(both, a.And(b))
				}
			}
		}
		anyOf = both
	}
	return anyOf
}

// tolerates reports whether the taints let the form in. One that is only to be avoided keeps it away too, until it gives up
// that wish.
func (f *form) tolerates(taints []model.Taint) bool {
	if _, bad := model.Untolerated(taints, f.chain.shape.Tolerations); bad {
		return false
	}
	return f.softly(taints)
}
