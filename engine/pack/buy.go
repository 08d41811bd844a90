package pack

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/nodeless/nodeless/engine/cover"
	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// shop is a tier's pools and the pods that get their machines there, as engine/cover sees them.
type shop struct {
	*problem
	cover   cover.Problem
	bins    []binOf
	members [][]member // by item: whose pods it stands for
	classes []int      // of the problem, by class of the cover
	all     bool       // bins that cannot keep minValues count too
}

type binOf struct {
	view, typ int
	offer     rules.Offer
}

type member struct {
	g    *group
	part int
}

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

// buyLevel gives the number of rounds it took.
func (p *problem) buyLevel(first bool) int {
	tiers := 0
	for tier := range p.tiers {
		for round := 0; round < 8 && !p.partial; round++ {
			s := p.shopIn(tier, false)
			if len(s.cover.Items) == 0 {
				break
			}
			tiers++
			if !s.serve(first && tiers == 1, tier+1 < len(p.tiers)) {
				break
			}
		}
	}
	return tiers
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
	s.cover.Loose = nil
	p.bound = model.Price(cover.Bound(&s.cover))
	p.tiers = p.tiers[:len(p.tiers)-1]
	for i, g := range p.groups {
		g.parts = kept[i]
	}
}

// shopIn prepares a tier.
func (p *problem) shopIn(tier int, all bool) *shop {
	s := &shop{problem: p, all: all}
	at := map[int]int{}
	for _, g := range p.groups {
		for i := range g.parts {
			if x := &g.parts[i]; x.n > 0 && p.chooses(g) {
				if _, ok := at[x.class]; !ok {
					at[x.class] = len(s.classes)
					s.classes = append(s.classes, x.class)
				}
			}
		}
	}
	loose := make([]int, 0, len(s.classes)) // the classes before zones were chosen come last
	for _, c := range slices.Clone(s.classes) {
		if base := p.classes[c].base; base != c {
			if _, ok := at[base]; !ok {
				at[base] = len(s.classes) + len(loose)
				loose = append(loose, base)
			}
		}
	}
	s.classes = append(s.classes, loose...)
	s.cover.Dims = len(p.active) + len(p.drivers)
	s.cover.Slots, s.cover.Soft, s.cover.Conflicts = p.slots, p.soft, p.conflicts()
	if s.cover.Dims > cover.MaxDims {
		s.cover.Dims = cover.MaxDims // more resources and drivers than one cluster has
	}
	s.addBins(tier)
	s.addItems(at)
	return s
}

func (s *shop) size(g *group) cover.Vector {
	var v cover.Vector
	for d, r := range s.active {
		v[d] = g.request[r]
	}
	for d, driver := range s.drivers {
		for _, x := range g.shape.Volumes {
			if at := len(s.active) + d; x.Driver == driver && at < cover.MaxDims {
				v[at]++
			}
		}
	}
	return v
}

// addItems makes one item of all pods that are the same to a machine.
func (s *shop) addItems(at map[int]int) {
	needs := make([]int, len(s.slots))
	for _, g := range s.groups {
		for i := range g.parts {
			for _, slot := range g.slots {
				needs[slot] += (g.parts[i].n + s.slots[slot] - 1) / max(s.slots[slot], 1)
			}
		}
	}
	most := slices.Max(append(needs, 1))
	items, loose := map[string]int{}, map[string]int{}
	for _, g := range s.groups {
		size := s.size(g)
		for i := range g.parts {
			x := &g.parts[i]
			if x.n <= 0 || !s.chooses(g) {
				continue
			}
			item := cover.Item{Size: size, Class: at[x.class], Kind: g.kind, Slots: g.slots}
			key := fmt.Sprint(size[:s.cover.Dims], item.Class, item.Kind, item.Slots)
			k, ok := items[key]
			if !ok {
				k = len(s.cover.Items)
				items[key] = k
				item.Loose = s.loosen(g, item, at[s.problem.classes[x.class].base], loose, needs, most)
				s.cover.Items = append(s.cover.Items, item)
				s.members = append(s.members, nil)
			}
			s.cover.Items[k].Count += x.n
			s.cover.Loose[s.cover.Items[k].Loose].Count += x.n
			s.members[k] = append(s.members[k], member{g, i})
		}
	}
	same := true
	for i := range s.cover.Items {
		x := &s.cover.Items[i]
		same = same && s.cover.Loose[x.Loose].Class == x.Class && len(s.cover.Loose[x.Loose].Slots) == len(x.Slots)
	}
	if same {
		s.cover.Loose = nil
	}
}

// loosen gives the item without its zone, and without slots that so few need that any plan has room enough for them.
func (s *shop) loosen(g *group, item cover.Item, base int, loose map[string]int, needs []int, most int) int {
	item.Class, item.Count = base, 0
	item.Slots = slices.DeleteFunc(slices.Clone(item.Slots), func(slot int) bool {
		return slices.Contains(g.spreads, slot) && needs[slot]*3 < most
	})
	key := fmt.Sprint(item.Size[:s.cover.Dims], item.Class, item.Kind, item.Slots)
	k, ok := loose[key]
	if !ok {
		k = len(s.cover.Loose)
		loose[key] = k
		s.cover.Loose = append(s.cover.Loose, item)
	}
	return k
}

// addBins lists what the tier's pools offer, without what something else beats in price, room and openness.
func (s *shop) addBins(tier int) {
	type bin struct {
		cover.Bin
		of binOf
	}
	var all []bin
	for _, vi := range s.tiers[tier] {
		v := s.views[vi]
		limited := s.limited(v)
		pool := len(s.cover.Pools)
		room := cover.Pool{Count: int(min(s.rooms[vi].Nodes, 1<<40))}
		for _, r := range limited {
			room.Left = append(room.Left, s.rooms[vi].Left[r])
		}
		s.cover.Pools = append(s.cover.Pools, room)
		for t := range v.Net {
			if !v.Eligible.Has(t) || !s.policy.Admits(&v.Pool.Types[t].Capacity) || !s.all && !s.flexible(v, t) {
				continue
			}
			var size cover.Vector
			for d, r := range s.active {
				size[d] = v.Net[t][r]
			}
			for d, driver := range s.drivers {
				if at := len(s.active) + d; at < cover.MaxDims {
					size[at] = 1 << 40
					if most, ok := model.AttachLimitOf(v.Pool.Types[t].AttachLimits, driver); ok {
						size[at] = most
					}
				}
			}
			var charge []int64
			for _, r := range limited {
				charge = append(charge, v.Pool.Types[t].Capacity[r])
			}
			first := len(all)
			for _, f := range v.Offers[t] {
				if !f.Available {
					continue
				}
				open := cover.NewSet(len(s.classes))
				any := false
				for i, c := range s.classes {
					if class := s.problem.classes[c]; class.optionFor(vi, t, &f) >= 0 || s.all && class.optionIn(vi, t, &f) >= 0 {
						open.Add(i)
						any = true
					}
				}
				b := bin{cover.Bin{Size: size, Price: int64(f.Price), Open: open, Pool: pool, Charge: charge}, binOf{vi, t, f}}
				if any && !slices.ContainsFunc(all[first:], func(o bin) bool { return o.Price <= b.Price && o.Open.Covers(open) }) {
					all = append(all, b)
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b bin) int {
		if d := cmp.Compare(a.Price, b.Price); d != 0 {
			return d
		}
		for d := range s.cover.Dims {
			if c := cmp.Compare(b.Size[d], a.Size[d]); c != 0 {
				return c
			}
		}
		return 0
	})
	for i := range all {
		b := &all[i]
		if !slices.ContainsFunc(s.cover.Bins, func(o cover.Bin) bool { return s.beats(&o, &b.Bin) }) {
			s.cover.Bins = append(s.cover.Bins, b.Bin)
			s.bins = append(s.bins, b.of)
		}
	}
}

// beats reports whether a, which is no dearer, can do all that b can and takes no more of what is limited.
func (s *shop) beats(a, b *cover.Bin) bool {
	if a.Pool != b.Pool || !a.Open.Covers(b.Open) {
		return false
	}
	for d := range s.cover.Dims {
		if a.Size[d] < b.Size[d] {
			return false
		}
	}
	for i := range a.Charge {
		if a.Charge[i] > b.Charge[i] {
			return false
		}
	}
	return true
}

func (s *shop) limited(v *rules.View) []int {
	var out []int
	for r, set := range v.Pool.Limits.Set {
		if set {
			out = append(out, r)
		}
	}
	return out
}

// flexible reports whether the types that hold whatever this one holds are as many as the pool's minValues want.
func (s *shop) flexible(v *rules.View, typ int) bool {
	if len(v.MinValues) == 0 {
		return true
	}
	var as []int
	for t := range v.Net {
		if v.Eligible.Has(t) && s.holdsMore(v, t, typ) {
			as = append(as, t)
		}
	}
	_, _, short := v.ShortOfValues(as, allTrue(len(v.Zones)), allTrue(len(v.Capacities)))
	return !short
}

func (s *shop) holdsMore(v *rules.View, a, b int) bool {
	for _, r := range s.active {
		if v.Net[a][r] < v.Net[b][r] {
			return false
		}
	}
	return true
}

// serve buys and gives the machines their pods. It reports whether pods still wait for which another round may find something.
func (s *shop) serve(first, spill bool) bool {
	found := cover.Solve(&s.cover, cover.Options{Steps: s.steps, Spill: spill})
	s.steps -= found.Steps
	s.partial = s.partial || found.Partial
	if s.bound = 0; first && !slices.ContainsFunc(found.Left, func(n int) bool { return n > 0 }) {
		s.bound = model.Price(found.Bound)
	}
	again := false
	for _, x := range found.Patterns {
		b := &s.bins[x.Bin]
		takes := s.takesOf(x.Takes, b)
		if slices.ContainsFunc(takes, func(t take) bool { return t.option < 0 }) {
			again = true // the pool was closed to them a moment ago
			continue
		}
		proto, ok := s.build(b.view, takes)
		if !ok {
			again = s.fewer(b, x) || again
			continue
		}
		for range x.Times {
			if !s.rooms[b.view].Allows(&s.views[b.view].Pool.Limits, &proto.largest) {
				break
			}
			s.rooms[b.view] = s.rooms[b.view].Less(proto.largest)
			m := *proto
			m.takes = s.draw(x.Takes, b)
			s.machines = append(s.machines, &m)
		}
	}
	return again
}

// takesOf is the takes of a pattern in classes, for one pod of each as example.
func (s *shop) takesOf(takes []cover.Take, b *binOf) []take {
	out := make([]take, len(takes))
	for i, t := range takes {
		class := s.classes[s.cover.Items[t.Item].Class]
		m := s.members[t.Item][0]
		out[i] = take{group: m.g, n: t.N, class: class, option: s.problem.classes[class].optionFor(b.view, b.typ, &b.offer)}
	}
	return out
}

// draw takes the pods out of the parts that wait.
func (s *shop) draw(takes []cover.Take, b *binOf) []take {
	var out []take
	for _, t := range takes {
		class := s.classes[s.cover.Items[t.Item].Class]
		option := s.problem.classes[class].optionFor(b.view, b.typ, &b.offer)
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
func (s *shop) fewer(b *binOf, x cover.Pattern) bool {
	t := x.Takes[0]
	for n := t.N; n > 0; n /= 2 {
		some := []cover.Take{{Item: t.Item, N: n}}
		m, ok := s.build(b.view, s.takesOf(some, b))
		if !ok {
			continue
		}
		if !s.rooms[b.view].Allows(&s.views[b.view].Pool.Limits, &m.largest) {
			return false
		}
		s.rooms[b.view] = s.rooms[b.view].Less(m.largest)
		m.takes = s.draw(some, b)
		s.machines = append(s.machines, m)
		return true
	}
	class := s.classes[s.cover.Items[t.Item].Class]
	s.problem.classes[class].banned[b.view] = true
	return true
}
