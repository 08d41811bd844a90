package solve

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
	"github.com/nodeless/nodeless/engine/solve/internal/binpack"
)

// buy plans machines for all parts, tier by tier. Pods that a tier cannot serve go on to the next.
func (p *problem) buy() {
	defer p.boundServed()
	tiers := 0
	for _, level := range p.levels() {
		p.level = level
		tiers += p.buyLevel(tiers == 0)
	}
	p.level = nil
}

// levels are the priorities whose pods choose one after another: all together unless limits are short.
func (p *problem) levels() []*int32 {
	if !p.known.short {
		return []*int32{nil}
	}
	var out []*int32
	for _, g := range p.groups { // the most important first
		if g.left() == 0 {
			continue
		}
		if level := p.priority(g); len(out) == 0 || *out[len(out)-1] != level {
			out = append(out, &level)
		}
	}
	return out
}

// chooses reports whether it is the group's turn.
func (p *problem) chooses(g *group) bool {
	return p.level == nil || g.left() > 0 && p.priority(g) == *p.level
}

// mostRounds bounds how often a tier is asked; each round buys machines or closes a pool to some pods.
const mostRounds = 64

// buyLevel gives the number of rounds it took.
func (p *problem) buyLevel(first bool) int {
	rounds := 0
	for tier := range p.tiers {
		rounds += p.buyIn(tier, false, first && rounds == 0)
		if slices.ContainsFunc(p.tiers[tier], func(v int) bool { return p.views[v].BestEffort && len(p.views[v].MinValues) > 0 }) {
			rounds += p.buyIn(tier, true, false)
		}
	}
	return rounds
}

// buyIn buys in one tier until nothing more can be had; all says whether also machines that do not keep minValues.
func (p *problem) buyIn(tier int, all, first bool) int {
	for round := range mostRounds {
		s := p.shopIn(tier, all)
		if p.partial || len(s.cover.Items) == 0 {
			return round
		}
		if !s.serve(first && round == 0, tier+1 < len(p.tiers)) {
			return round + 1
		}
	}
	return mostRounds
}

// boundServed bounds the cost of what was served where several tiers did, or limits or minValues narrowed the choice: each pod
// might have gone to any machine.
func (p *problem) boundServed() {
	for _, g := range p.groups {
		if slices.ContainsFunc(g.parts, func(x part) bool { return x.n > 0 }) {
			p.bound = 0
		}
	}
	if slices.ContainsFunc(p.views, func(v *rules.View) bool { return len(v.MinValues) > 0 }) {
		p.bound = 0 // it was bought without machines that are too rare
	}
	if p.bound > 0 || len(p.machines) == 0 {
		return
	}
	served := map[*group]int{}
	for _, m := range p.machines {
		for _, t := range m.takes {
			served[t.group] += t.n
		}
	}
	kept := make([][]part, len(p.groups))
	for i, g := range p.groups {
		kept[i] = g.parts
		g.parts = []part{{class: g.class, n: served[g]}}
	}
	every := make([]int, len(p.views))
	for i := range every {
		every[i] = i
	}
	p.tiers = append(p.tiers, every)
	s := p.shopIn(len(p.tiers)-1, true)
	s.cover.Relaxed = nil
	p.bound = model.Price(binpack.Bound(&s.cover))
	p.tiers = p.tiers[:len(p.tiers)-1]
	for i, g := range p.groups {
		g.parts = kept[i]
	}
}

// serve buys and gives the machines their pods. It reports whether pods still wait for which another round may find something.
func (s *shop) serve(first, spill bool) bool {
	options := binpack.Options{Steps: s.steps, Spill: spill}
	if x := s.shared; x != nil && x.idea {
		options.SkipBound = true
		if first && len(s.tiers) == 1 && s.level == nil {
			options.Cutoff = int64(x.below)
		}
	}
	found := binpack.Solve(&s.cover, options)
	s.steps -= found.Steps
	s.partial = s.partial || found.Partial
	if s.bound = 0; first && !slices.ContainsFunc(found.Left, func(n int) bool { return n > 0 }) {
		s.bound = model.Price(found.Bound)
	}
	again, before := false, len(s.machines)
	for _, x := range found.Patterns {
		b := &s.bins[x.Bin]
		takes := s.takesOf(x.Items, b)
		if slices.ContainsFunc(takes, func(t take) bool { return t.option < 0 }) {
			again = true // the pool was closed to them a moment ago
			continue
		}
		proto, ok := s.build(b.view, takes, s.all)
		if !ok {
			again = s.fewer(b, x) || again
			continue
		}
		for range x.Times {
			if !s.rooms[b.view].Allows(&s.views[b.view].Pool.Limits, &proto.largest) {
				break
			}
			s.rooms[b.view] = s.rooms[b.view].Minus(proto.largest)
			m := *proto
			m.takes = s.draw(x.Items, b)
			s.machines = append(s.machines, &m)
		}
	}
	// What a limit leaves when machines are bought may be enough for smaller ones.
	short := slices.ContainsFunc(found.Left, func(n int) bool { return n > 0 })
	return again || short && len(s.machines) > before
}

// takesOf is the takes of a pattern in classes, for one pod of each as example.
func (s *shop) takesOf(takes []binpack.ItemCount, b *binOf) []take {
	out := make([]take, len(takes))
	for i, t := range takes {
		class := s.classes[s.cover.Items[t.Item].Class]
		m := s.members[t.Item][0]
		out[i] = take{group: m.g, n: t.N, class: class, option: s.optionFor(class, b)}
	}
	return out
}

// draw takes the pods out of the parts that wait.
func (s *shop) draw(takes []binpack.ItemCount, b *binOf) []take {
	var out []take
	for _, t := range takes {
		class := s.classes[s.cover.Items[t.Item].Class]
		option := s.optionFor(class, b)
		for left := t.N; left > 0; {
			members := s.members[t.Item]
			x := &members[0].g.parts[members[0].part]
			n := min(left, x.n)
			if n > 0 {
				out = append(out, take{group: members[0].g, n: n, class: class, option: option})
				x.n -= n
				left -= n
			}
			if x.n == 0 {
				s.members[t.Item] = members[1:]
			}
		}
	}
	return out
}

// fewer buys machines with fewer pods where the whole load leaves too few types for minValues, or pods that cannot have the
// labels they want together. Where even one pod is too much the pool is closed to its class.
func (s *shop) fewer(b *binOf, x binpack.Pattern) bool {
	t := x.Items[0]
	for n := t.N; n > 0; n /= 2 {
		some := []binpack.ItemCount{{Item: t.Item, N: n}}
		m, ok := s.build(b.view, s.takesOf(some, b), s.all)
		if !ok {
			continue
		}
		if !s.rooms[b.view].Allows(&s.views[b.view].Pool.Limits, &m.largest) {
			return false
		}
		s.rooms[b.view] = s.rooms[b.view].Minus(m.largest)
		m.takes = s.draw(some, b)
		s.machines = append(s.machines, m)
		return true
	}
	class := s.classes[s.cover.Items[t.Item].Class]
	s.problem.classes[class].banned[b.view] = true
	return !s.all // where nobody is banned it would be asked again and again
}
