package solve

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// Alternatives that cost more than alternativePercent of the chosen offering are left out of a launch. If fewer than
// minAlternatives would remain, they may cost up to scarcePercent: flexibility helps when capacity runs out, but not
// at any price.
const (
	alternativePercent = 150
	scarcePercent      = 400
	minAlternatives    = 5
)

// assignment is some pods of a group on a planned node, with the class and the option by which they may run there.
type assignment struct {
	group         *group
	n             int
	class, option int // option -1: placed by firstfit
}

// plannedNode is a load with the types that can bear it.
type plannedNode struct {
	view        int
	assignments []assignment
	bearing     rules.Bits         // types that may bear it
	wants       model.Requirements // of the pods
	custom      model.Requirements // on labels that neither type nor offering decides
	rules.OfferSet
	load      model.Resources // of the pods
	types     []int           // cheapest first
	largest   model.Resources // of the types' capacities
	chosen    model.Candidate
	typ       int         // of the chosen
	price     model.Price // effective price of the chosen
	runnerUp  model.Candidate
	relaxed   bool      // minValues may be lowered
	addresses int64     // the most that one of the types takes from its subnet
	inBlocks  int64     // the same of the types that cannot use scattered addresses
	from      []int     // indices of the subnets that are charged with them
	template  *template // shared with nodes of the same pattern
}

func newPlannedNode(view int, v *rules.View, bearing rules.Bits, relaxed bool) *plannedNode {
	return &plannedNode{
		view: view, bearing: bearing, OfferSet: v.AllOffers(), relaxed: relaxed,
	}
}

// sumLoad sets the load to that of the assignments.
func (n *plannedNode) sumLoad() {
	n.load = model.Resources{}
	for _, a := range n.assignments {
		n.load = n.load.Plus(a.group.request.Times(int64(a.n)))
	}
}

// nodeBuilder finds the offerings that can bear a load.
type nodeBuilder struct {
	*market
	state   *rules.State
	classes *classTable
	lookers map[int]int
}

// build returns a node for the pods, with all types that can bear them within what the limits leave. It fails if
// minValues cannot be kept, unless they may be relaxed.
func (b *nodeBuilder) build(view int, pods []assignment, relaxed bool) (*plannedNode, bool) {
	v := b.views[view]
	n := newPlannedNode(view, v, slices.Clone(v.Eligible), relaxed)
	n.assignments = pods
	for _, a := range pods {
		o := &b.classes.list[a.class].options[view][a.option]
		n.Zones.Keep(o.Zones)
		n.Capacity.Keep(o.Capacity)
		n.bearing.Keep(o.Types)
		if !rules.Compatible(n.custom, o.Custom) {
			return n, false
		}
		n.custom = n.custom.And(o.Custom)
		n.wants = n.wants.And(o.Wants)
	}
	n.sumLoad()
	return n, b.complete(n)
}

// complete chooses the node's offering and the types that may stand in for it. If pods depend on its zone and the
// cheapest zone has too few types for minValues, it tries the next.
func (b *nodeBuilder) complete(n *plannedNode) bool {
	keys := b.dependedOn(n)
	if len(b.views[n.view].MinValues) == 0 || n.relaxed || !slices.Contains(keys, model.LabelZone) {
		return b.completeIn(n, keys, b.offeringOptions(n))
	}
	zones, from := slices.Clone(n.Zones), *n
	for {
		n.Zones, n.Capacity, n.bearing = slices.Clone(zones), slices.Clone(from.Capacity), slices.Clone(from.bearing)
		n.custom = from.custom
		options := b.offeringOptions(n)
		if len(options) == 0 {
			return false
		}
		zone := options[0].offer.Zone
		if b.completeIn(n, keys, options) {
			return true
		}
		zones.Remove(zone)
	}
}

// completeIn chooses among the options, the offerings that bear the load. It (1) fixes the labels by which pods depend
// on each other to those of the cheapest, and (2) chooses among the remaining ones for which the subnets have
// addresses.
func (b *nodeBuilder) completeIn(n *plannedNode, keys []string, options []offeringOption) bool {
	if len(options) == 0 {
		return false
	}
	for _, key := range keys {
		b.fix(n, key, options[0])
		if options = b.offeringOptions(n); len(options) == 0 {
			return false
		}
	}
	ok := b.choose(n, options)
	for ok && b.addresses.narrow(n) {
		if options = b.offeringOptions(n); len(options) == 0 {
			return false
		}
		ok = b.choose(n, options)
	}
	return ok
}

// choose sets the node's offering, the next best one and the types that may stand in.
func (b *nodeBuilder) choose(n *plannedNode, options []offeringOption) bool {
	v, best := b.views[n.view], options[0]
	n.template, n.runnerUp = &template{}, model.Candidate{}
	n.typ, n.chosen, n.price = best.typ, best.candidate(v), best.offer.Price
	for _, o := range options[1:] {
		if o.typ != best.typ {
			n.runnerUp = o.candidate(v)
			break
		}
	}
	ok := b.chooseTypes(n, options)
	n.largest = model.Resources{}
	for _, t := range n.types {
		n.largest = n.largest.Max(v.Pool.Types[t].Capacity)
	}
	return ok
}

// dependedOn returns the label keys other than the hostname that affinity, anti-affinity and spread constraints use,
// of pods of this node or of other pods that count them. The node needs a known value of each.
func (b *nodeBuilder) dependedOn(n *plannedNode) []string {
	var out []string
	add := func(topology int) {
		if key := b.state.TopologyKey(topology); key != model.LabelHostname {
			out = append(out, key)
		}
	}
	for _, a := range n.assignments {
		g := a.group.index
		near, _ := b.state.AffinityCounters(g)
		for _, c := range slices.Concat(near, b.state.AntiAffinityCounters(g)) {
			add(b.state.CounterTopology(c))
		}
		for _, s := range b.state.SpreadTerms(g) {
			add(s.Topology)
		}
		for _, c := range b.state.PodCounters(g) {
			if b.lookers[int(c)] > 0 {
				add(b.state.CounterTopology(int(c)))
			}
		}
		if len(b.classes.list[a.group.class].zones) > 0 {
			add(b.state.Topology(model.LabelZone))
		}
	}
	return sortedSet(out)
}

// fix restricts the node to the option's value of the label.
func (b *nodeBuilder) fix(n *plannedNode, key string, o offeringOption) {
	v := b.views[n.view]
	switch {
	case key == model.LabelZone:
		clear(n.Zones)
		n.Zones.Set(o.offer.Zone)
	case key == model.LabelCapacityType:
		clear(n.Capacity)
		n.Capacity.Set(o.offer.Capacity)
	case v.OfTypes(key):
		have, _ := rules.TypeLabel(&v.Pool.Types[o.typ], key)
		for t := range v.Pool.Types {
			if label, _ := rules.TypeLabel(&v.Pool.Types[t], key); !slices.Equal(label.Values, have.Values) {
				n.bearing.Remove(t)
			}
		}
	default:
		if _, chosen := n.custom.Get(key); !chosen {
			if r, ok := v.Requirements.Get(key); ok {
				n.custom = n.custom.And(model.Requirements{r})
			}
		}
	}
}

// chooseTypes sets the node's types. If the pool's limits name resources, larger types would take more of the limits
// than the chosen one does, so they are used only if minValues need them.
func (b *nodeBuilder) chooseTypes(n *plannedNode, options []offeringOption) bool {
	v := b.views[n.view]
	limits := &v.Pool.Limits
	within := options
	if rules.Limited(limits) {
		chosen := &v.Pool.Types[n.typ].Capacity
		within = slices.DeleteFunc(slices.Clone(options), func(o offeringOption) bool {
			return !rules.NoLarger(limits, &v.Pool.Types[o.typ].Capacity, chosen)
		})
	}
	var ok bool
	if n.types, ok = b.withMinValues(n, within); !ok && len(within) < len(options) {
		n.types, ok = b.withMinValues(n, options)
	}
	return ok || n.relaxed
}

func (b *nodeBuilder) withMinValues(n *plannedNode, options []offeringOption) ([]int, bool) {
	types := make([]int, len(options))
	cheap := 0
	for i, o := range options {
		types[i] = o.typ
		limit := options[0].offer.Price * alternativePercent
		if i < minAlternatives {
			limit = options[0].offer.Price * scarcePercent
		}
		if o.offer.Price*100 <= limit || b.policy.MaxTypes == allTypes {
			cheap = i + 1
		}
	}
	return b.views[n.view].WithMinValues(types, cheap, maxTypes(b.policy), n.OfferSet)
}
