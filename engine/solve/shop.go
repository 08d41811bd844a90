package solve

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
	"github.com/nodeless/nodeless/engine/solve/internal/binpack"
)

// shop is a tier's pools and the pods that get their machines there, as engine/solve/internal/binpack sees them.
type shop struct {
	*problem
	cover   binpack.Problem
	bins    []binOf
	members [][]member // by item: whose pods it stands for
	classes []int      // of the problem, by class of the cover
	all     bool       // bins that cannot keep minValues count too, and machines may relax them
}

type binOf struct {
	view, typ int
	offer     rules.Offer
}

type member struct {
	g    *group
	part int
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
	if s.cover.Dims > binpack.MaxDims {
		s.cover.Dims = binpack.MaxDims // more resources and drivers than one cluster has
	}
	s.addBins(tier)
	s.addItems(at)
	return s
}

func (s *shop) size(g *group) binpack.Vector {
	var v binpack.Vector
	for d, r := range s.active {
		v[d] = g.request[r]
	}
	for d, driver := range s.drivers {
		for _, x := range g.shape.Volumes {
			if at := len(s.active) + d; x.Driver == driver && at < binpack.MaxDims {
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
			item := binpack.Item{Size: size, Class: at[x.class], Group: g.kind, Slots: g.slots}
			key := fmt.Sprint(size[:s.cover.Dims], item.Class, item.Group, item.Slots)
			k, ok := items[key]
			if !ok {
				k = len(s.cover.Items)
				items[key] = k
				item.Relaxed = s.loosen(g, item, at[s.problem.classes[x.class].base], loose, needs, most)
				s.cover.Items = append(s.cover.Items, item)
				s.members = append(s.members, nil)
			}
			s.cover.Items[k].Count += x.n
			s.cover.Relaxed[s.cover.Items[k].Relaxed].Count += x.n
			s.members[k] = append(s.members[k], member{g, i})
		}
	}
	same := true
	for i := range s.cover.Items {
		x := &s.cover.Items[i]
		same = same && s.cover.Relaxed[x.Relaxed].Class == x.Class && len(s.cover.Relaxed[x.Relaxed].Slots) == len(x.Slots)
	}
	if same {
		s.cover.Relaxed = nil
	}
}

// loosen gives the item without its zone, and without slots that so few need that any plan has room enough for them.
func (s *shop) loosen(g *group, item binpack.Item, base int, loose map[string]int, needs []int, most int) int {
	item.Class, item.Count = base, 0
	item.Slots = slices.DeleteFunc(slices.Clone(item.Slots), func(slot int) bool {
		return slices.Contains(g.spreads, slot) && needs[slot]*3 < most
	})
	key := fmt.Sprint(item.Size[:s.cover.Dims], item.Class, item.Group, item.Slots)
	k, ok := loose[key]
	if !ok {
		k = len(s.cover.Relaxed)
		loose[key] = k
		s.cover.Relaxed = append(s.cover.Relaxed, item)
	}
	return k
}

// addBins lists what the tier's pools offer, without what something else beats in price, room and openness.
func (s *shop) addBins(tier int) {
	type bin struct {
		binpack.Bin
		of binOf
	}
	var all []bin
	for _, vi := range s.tiers[tier] {
		all = slices.Grow(all, 4*len(s.views[vi].Net))
	}
	for _, vi := range s.tiers[tier] {
		v := s.views[vi]
		limited := s.limited(v)
		pool := len(s.cover.Pools)
		room := binpack.Pool{Count: int(min(s.rooms[vi].Nodes, 1<<40))}
		for _, r := range limited {
			room.Left = append(room.Left, s.rooms[vi].Left[r])
		}
		s.cover.Pools = append(s.cover.Pools, room)
		for t := range v.Net {
			if !v.Eligible.Has(t) || !s.policy.Admits(&v.Pool.Types[t].Capacity) || !s.all && !s.flexible(v, t) {
				continue
			}
			var size binpack.Vector
			for d, r := range s.active {
				size[d] = v.Net[t][r]
			}
			for d, driver := range s.drivers {
				if at := len(s.active) + d; at < binpack.MaxDims {
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
				open := binpack.NewSet(len(s.classes))
				any := false
				for i, c := range s.classes {
					if s.optionFor(c, &binOf{vi, t, f}) >= 0 {
						open.Add(i)
						any = true
					}
				}
				b := bin{binpack.Bin{Size: size, Price: int64(f.Price), Open: open, Pool: pool, Charge: charge}, binOf{vi, t, f}}
				if any && !slices.ContainsFunc(all[first:], func(o bin) bool { return o.Price <= b.Price && o.Open.Covers(open) }) {
					all = append(all, b)
				}
			}
		}
	}
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := &all[i], &all[j]
		if d := cmp.Compare(a.Price, b.Price); d != 0 {
			return d
		}
		for d := range s.cover.Dims {
			if c := cmp.Compare(b.Size[d], a.Size[d]); c != 0 {
				return c
			}
		}
		return cmp.Compare(i, j)
	})
	for _, i := range order {
		b := &all[i]
		if !s.beaten(&b.Bin) {
			s.cover.Bins = append(s.cover.Bins, b.Bin)
			s.bins = append(s.bins, b.of)
		}
	}
}
