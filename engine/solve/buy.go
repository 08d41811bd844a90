package solve

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/solve/internal/binpack"
)

// maxRounds bounds the rounds of a tier; each round plans nodes or closes a pool to some pods.
const maxRounds = 64

// buy plans nodes for all parts, tier by tier: pods that a tier cannot serve go on to the next. If limits were short
// in an earlier attempt, it goes priority by priority.
func (p *problem) buy() {
	rounds := 0
	for _, level := range p.levels() {
		p.level = level
		for tier := range p.tiers {
			rounds += p.buyIn(tier, false, rounds == 0)
			if slices.ContainsFunc(p.tiers[tier], func(v int) bool {
				return p.views[v].BestEffort && len(p.views[v].MinValues) > 0
			}) {
				rounds += p.buyIn(tier, true, false)
			}
		}
	}
	p.level = nil
	p.boundServed()
}

// levels returns the priorities whose pods choose one after another: all together unless limits are short.
func (p *problem) levels() []*int32 {
	if !p.limitsShort {
		return []*int32{nil}
	}
	var out []*int32
	for _, g := range p.waiting() { // the most important first
		if level := p.priority(g); len(out) == 0 || *out[len(out)-1] != level {
			out = append(out, &level)
		}
	}
	return out
}

// isTurnOf reports whether the group may choose now.
func (p *problem) isTurnOf(g *group) bool {
	return p.level == nil || g.left() > 0 && p.priority(g) == *p.level
}

// buyIn plans nodes in one tier until it can serve no more pods, and returns how many rounds that took. relaxed says
// whether nodes may relax minValues.
func (p *problem) buyIn(tier int, relaxed, first bool) int {
	for round := range maxRounds {
		x := p.newPurchase(p.tiers[tier], relaxed)
		if p.partial || len(x.packing.Items) == 0 {
			return round
		}
		if !x.serve(first && round == 0, tier+1 < len(p.tiers)) {
			return round + 1
		}
	}
	return maxRounds
}

// serve solves the packing problem and plans nodes for its patterns. It reports whether pods still wait and another
// round may serve some of them.
func (x *purchase) serve(first, spill bool) bool {
	options := binpack.Options{Steps: x.steps, Spill: spill}
	if c := x.cluster; c.whatIf {
		options.SkipBound = true
		if first && len(x.tiers) == 1 && x.level == nil {
			options.Cutoff = int64(c.cutoff)
		}
	}
	solve := binpack.Solve
	if m := x.cluster.memory; m != nil && x.cluster.whatIf {
		solve = m.solve
	}
	found := solve(&x.packing, options)
	x.steps -= found.Steps
	x.partial = x.partial || found.Partial
	short := slices.ContainsFunc(found.Left, func(n int) bool { return n > 0 })
	if x.bound = 0; first && !short {
		x.bound = model.Price(found.Bound)
	}
	again, before := false, len(x.nodes)
	for _, pattern := range found.Patterns {
		o := &x.bins[pattern.Bin]
		pods := x.assignmentsOf(pattern.Items, o)
		if slices.ContainsFunc(pods, func(a assignment) bool { return a.option < 0 }) {
			again = true // an earlier pattern closed the pool to them
			continue
		}
		proto, ok := x.builder.build(o.view, pods, x.relaxed)
		if !ok {
			again = x.planFewer(o, pattern, len(x.nodes) > before) || again
			continue
		}
		for range pattern.Times {
			if !x.addresses.suit(proto) { // earlier nodes took addresses that it needs
				if proto, ok = x.builder.build(o.view, pods, x.relaxed); !ok {
					again = true
					break
				}
			}
			if !x.rooms[o.view].Allows(&x.views[o.view].Pool.Limits, &proto.largest) {
				break
			}
			n := *proto
			x.addNode(&n, pattern.Items, o)
		}
	}
	// What a limit leaves once nodes are planned may be enough for smaller ones.
	return again || short && len(x.nodes) > before
}

// addNode plans the node with the next pods of the items.
func (x *purchase) addNode(n *plannedNode, items []binpack.ItemCount, o *offeringOf) {
	x.charge(n)
	n.assignments = x.draw(items, o)
	x.nodes = append(x.nodes, n)
}

// assignmentsOf returns the assignments of a pattern, with one group of each item as an example.
func (x *purchase) assignmentsOf(items []binpack.ItemCount, o *offeringOf) []assignment {
	out := make([]assignment, len(items))
	for i, c := range items {
		class := x.classOf[x.packing.Items[c.Item].Class]
		out[i] = assignment{group: x.members[c.Item][0].g, n: c.N, class: class, option: x.optionFor(class, o)}
	}
	return out
}

// draw takes the pods of a load out of the waiting parts.
func (x *purchase) draw(items []binpack.ItemCount, o *offeringOf) []assignment {
	var out []assignment
	for _, c := range items {
		class := x.classOf[x.packing.Items[c.Item].Class]
		option := x.optionFor(class, o)
		for left := c.N; left > 0; {
			members := x.members[c.Item]
			g := members[0].g
			part := &g.parts[members[0].part]
			if n := min(left, part.n); n > 0 {
				out = append(out, assignment{group: g, n: n, class: class, option: option})
				part.n -= n
				left -= n
			}
			if part.n == 0 {
				x.members[c.Item] = members[1:]
			}
		}
	}
	return out
}

// planFewer plans a node with fewer pods if the whole load leaves too few types for minValues, if the pods require
// labels that no node has together, or if no subnet has the addresses of the whole load. If not even one pod fits, it
// closes the pool to the pod's class, unless nodes planned in this round have taken the addresses: the next round
// does not offer what they leave too few for. It reports whether another round may serve more pods.
func (x *purchase) planFewer(o *offeringOf, pattern binpack.Pattern, planned bool) bool {
	c := pattern.Items[0]
	for n := c.N; n > 0; n = max(n/2, x.addresses.fewer(o.view, o.typ, n)) {
		some := []binpack.ItemCount{{Item: c.Item, N: n}}
		node, ok := x.builder.build(o.view, x.assignmentsOf(some, o), x.relaxed)
		if !ok {
			continue
		}
		if !x.rooms[o.view].Allows(&x.views[o.view].Pool.Limits, &node.largest) {
			return false
		}
		x.addNode(node, some, o)
		return true
	}
	if planned && !x.addresses.holds(o.view, o.offer.Zone, o.typ, x.fewestPods()) {
		x.bound = 0 // it assumed addresses for all pods
		return true
	}
	class := x.classOf[x.packing.Items[c.Item].Class]
	x.classes.list[class].banned[o.view] = true
	return !x.relaxed // with relaxed minValues bans do not count, and the next round would be the same
}
