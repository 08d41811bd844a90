package solve

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
	"github.com/nodeless/nodeless/engine/solve/internal/binpack"
)

// purchase is the pods whose turn it is and the pools that may launch nodes for them, as a problem of package
// binpack. An item is all pods that are interchangeable to a node, a bin is an offering, a dimension is a resource or
// a volume driver, and a class of the problem is a class of pods.
type purchase struct {
	*problem
	packing binpack.Problem
	bins    []offeringOf
	members [][]member // by item: whose pods it stands for
	classOf []int      // the index into classTable, by class of the packing problem
	relaxed bool       // bins that cannot keep minValues count too, and nodes may relax them
}

// offeringOf is an offering of a pool.
type offeringOf struct {
	view, typ int
	offer     rules.Offer
}

// member is a part of a group.
type member struct {
	g    *group
	part int
}

// newPurchase prepares the purchase of nodes in some pools.
func (p *problem) newPurchase(views []int, relaxed bool) *purchase {
	x := &purchase{problem: p, relaxed: relaxed}
	at := map[int]int{} // by class: its class in the packing problem
	add := func(class int) {
		if _, ok := at[class]; !ok {
			at[class] = len(x.classOf)
			x.classOf = append(x.classOf, class)
		}
	}
	for _, g := range p.groups {
		for i := range g.parts {
			if g.parts[i].n > 0 && p.isTurnOf(g) {
				add(g.parts[i].class)
			}
		}
	}
	for _, c := range slices.Clone(x.classOf) { // the classes before zones were chosen come last
		add(p.classes.list[c].base)
	}
	k := &x.packing
	k.Dims = min(len(p.active)+len(p.drivers), binpack.MaxDims)
	k.Slots, k.Soft, k.Conflicts = p.slots, p.soft, p.conflicts()
	x.addBins(views)
	x.addItems(at)
	return x
}

// values returns what a pod is worth, by shape: see Value.
func (x *purchase) values(shapes int) []float64 {
	out := make([]float64, shapes)
	x.packing.Relaxed = nil
	for i, value := range binpack.Value(&x.packing) {
		for _, m := range x.members[i] {
			out[m.g.index] = value
		}
	}
	return out
}

func (x *purchase) sizeOf(g *group) binpack.Vector {
	var v binpack.Vector
	for d, r := range x.active {
		v[d] = g.request[r]
	}
	for d, driver := range x.drivers {
		for _, volume := range g.shape.Volumes {
			if at := len(x.active) + d; volume.Driver == driver && at < binpack.MaxDims {
				v[at]++
			}
		}
	}
	return v
}

// addItems makes one item of all pods that are interchangeable to a node, and its relaxed item: see relax.
func (x *purchase) addItems(at map[int]int) {
	k := &x.packing
	needs := x.slotNeeds()
	busiest := slices.Max(append(needs, 1))
	items, relaxed := map[string]int{}, map[string]int{}
	for _, g := range x.groups {
		size := x.sizeOf(g)
		for i := range g.parts {
			part := &g.parts[i]
			if part.n <= 0 || !x.isTurnOf(g) {
				continue
			}
			item := binpack.Item{Size: size, Class: at[part.class], Group: g.conflictGroup, Slots: g.slots}
			key := x.itemKey(&item)
			n, ok := items[key]
			if !ok {
				n = len(k.Items)
				items[key] = n
				item.Relaxed = x.relax(g, item, at[x.classes.list[part.class].base], relaxed, func(slot int) bool {
					return needs[slot]*3 < busiest
				})
				k.Items = append(k.Items, item)
				x.members = append(x.members, nil)
			}
			k.Items[n].Count += part.n
			k.Relaxed[k.Items[n].Relaxed].Count += part.n
			x.members[n] = append(x.members[n], member{g, i})
		}
	}
	same := !slices.ContainsFunc(k.Items, func(item binpack.Item) bool {
		r := &k.Relaxed[item.Relaxed]
		return r.Class != item.Class || len(r.Slots) != len(item.Slots)
	})
	if same {
		k.Relaxed = nil
	}
}

func (x *purchase) itemKey(item *binpack.Item) string {
	return fmt.Sprint(item.Size[:x.packing.Dims], item.Class, item.Group, item.Slots)
}

// slotNeeds returns how many nodes the takers of each slot need.
func (x *purchase) slotNeeds() []int {
	needs := make([]int, len(x.slots))
	for _, g := range x.groups {
		for i := range g.parts {
			for _, slot := range g.slots {
				needs[slot] += (g.parts[i].n + x.slots[slot] - 1) / max(x.slots[slot], 1)
			}
		}
	}
	return needs
}

// relax returns the relaxed item: without its zones, and without the spread slots that are plentiful in any plan.
func (x *purchase) relax(g *group, item binpack.Item, base int, known map[string]int, plenty func(slot int) bool) int {
	item.Class, item.Count = base, 0
	item.Slots = slices.DeleteFunc(slices.Clone(item.Slots), func(slot int) bool {
		return slices.Contains(g.spreadSlots, slot) && plenty(slot)
	})
	key := x.itemKey(&item)
	i, ok := known[key]
	if !ok {
		i = len(x.packing.Relaxed)
		known[key] = i
		x.packing.Relaxed = append(x.packing.Relaxed, item)
	}
	return i
}

// offeredBin is a bin with its offering.
type offeredBin struct {
	binpack.Bin
	offeringOf
}

// addBins adds the pools' offerings, except those dominated by another in price, size and openness.
func (x *purchase) addBins(views []int) {
	count := 0
	for _, view := range views {
		count += 4 * len(x.views[view].Net)
	}
	all := make([]offeredBin, 0, count)
	for _, view := range views {
		all = x.appendBins(all, view)
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
		for d := range x.packing.Dims {
			if c := cmp.Compare(b.Size[d], a.Size[d]); c != 0 {
				return c
			}
		}
		return cmp.Compare(i, j)
	})
	for _, i := range order {
		if b := &all[i]; !x.isDominated(&b.Bin) {
			x.packing.Bins = append(x.packing.Bins, b.Bin)
			x.bins = append(x.bins, b.offeringOf)
		}
	}
}

// appendBins appends the offerings of one pool, and adds the pool's limits.
func (x *purchase) appendBins(all []offeredBin, view int) []offeredBin {
	v := x.views[view]
	var limited []int
	for r, set := range v.Pool.Limits.Set {
		if set {
			limited = append(limited, r)
		}
	}
	fewest := x.fewestPods()
	pool := len(x.packing.Pools)
	x.packing.Pools = append(x.packing.Pools, binpack.Pool{
		Count: int(min(x.rooms[view].Nodes, 1<<40)), Left: amounts(&x.rooms[view].Left, limited),
	})
	for t := range v.Eligible.All() {
		typ := &v.Pool.Types[t]
		if !x.relaxed && !x.flexible(v, t) {
			continue
		}
		size, charge := x.sizeOfType(v, t), amounts(&typ.Capacity, limited)
		first := len(all)
		for _, f := range v.Offers[t] {
			if !f.Available {
				continue
			}
			if !x.addresses.holds(view, f.Zone, t, fewest) {
				x.addresses.starved[view] = true
				continue
			}
			o := offeringOf{view, t, f}
			open, usable := binpack.NewSet(len(x.classOf)), false
			for i, c := range x.classOf {
				if x.optionFor(c, &o) >= 0 {
					open.Add(i)
					usable = true
				}
			}
			b := binpack.Bin{Size: size, Price: int64(f.Price), Open: open, Pool: pool, Charge: charge}
			beaten := func(o offeredBin) bool { return o.Price <= b.Price && o.Open.Covers(open) }
			if usable && !slices.ContainsFunc(all[first:], beaten) {
				all = append(all, offeredBin{b, o})
			}
		}
	}
	return all
}

func amounts[T ~[model.MaxResources]int64](of *T, resources []int) (out []int64) {
	for _, r := range resources {
		out = append(out, (*of)[r])
	}
	return out
}

func (x *purchase) sizeOfType(v *rules.View, t int) binpack.Vector {
	var size binpack.Vector
	for d, r := range x.active {
		size[d] = v.Net[t][r]
	}
	for d, driver := range x.drivers {
		if at := len(x.active) + d; at < binpack.MaxDims {
			size[at] = 1 << 40
			if limit, ok := model.AttachLimitOf(v.Pool.Types[t].AttachLimits, driver); ok {
				size[at] = limit
			}
		}
	}
	return size
}

// flexible reports whether the types that hold whatever this type holds meet the pool's minValues.
func (x *purchase) flexible(v *rules.View, typ int) bool {
	if len(v.MinValues) == 0 {
		return true
	}
	var types []int
	for t := range v.Eligible.All() {
		if !slices.ContainsFunc(x.active, func(r int) bool { return v.Net[t][r] < v.Net[typ][r] }) {
			types = append(types, t)
		}
	}
	_, _, short := v.ShortOfValues(types, v.AllOffers())
	return !short
}

// optionFor returns the option by which a class may use the offering, or -1.
func (x *purchase) optionFor(class int, o *offeringOf) int {
	return x.classes.list[class].optionFor(o.view, o.typ, &o.offer, x.relaxed)
}
