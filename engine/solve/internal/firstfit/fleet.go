package firstfit

import (
	"math"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// node is a planned node during packing.
type node struct {
	view     int
	shapes   []ShapeCount
	pods     int
	types    rules.Bits
	zones    rules.Bits
	capacity rules.Bits
	custom   model.Requirements
	load     model.Resources
	free     model.Resources // the most that some type has left
	ports    []model.HostPort
	volumes  []*model.Volume // each once
	relaxed  bool            // it need not keep minValues, since its first pod could not
}

func (n *node) tooFull(demands []demand) bool {
	for i := range demands {
		if demands[i].amount > n.free[demands[i].resource] {
			return true
		}
	}
	return false
}

// excludes is a quick check: too little room, or nothing in common.
func (n *node) excludes(demands []demand, o *option) bool {
	return n.tooFull(demands) ||
		!n.zones.Intersects(o.zonesNow) || !n.capacity.Intersects(o.capacityNow) || !n.types.Intersects(o.Types)
}

// trial is what a node would become with one more pod.
type trial struct {
	types, zones, capacity, pairs rules.Bits
	zonePrices, capacityPrices    []model.Price
	custom                        model.Requirements
	most                          model.Resources // that one of the types has, of resources that some shape requests
}

// fleet is the planned nodes, and what their pods add to the State's counters.
type fleet struct {
	shapes  []model.Shape
	state   *rules.State
	pools   *poolSet
	nodes   []*node
	order   []int // nodes that may still take something, fewest pods first
	active  []int // resources that some shape requests
	least   []demand
	volumes volumes
	counts  []counts
	version int     // changes whenever a count does
	domains []int32 // scratch
}

// volumes is what is known about volumes, by ID.
type volumes struct {
	alone map[string]bool   // one pod only may use it
	inUse map[string]bool   // of those, a planned pod does
	names map[string]string // of drivers, as the first shape with the volume says
}

func newFleet(s *model.Snapshot, state *rules.State, pools *poolSet, least model.Resources) *fleet {
	f := &fleet{shapes: s.Shapes, state: state, pools: pools, least: demandsOf(least)}
	f.volumes = volumes{alone: map[string]bool{}, inUse: map[string]bool{}, names: map[string]string{}}
	var requested model.Resources
	for i := range s.Shapes {
		requested = requested.Max(s.Shapes[i].Requests)
		for _, v := range s.Shapes[i].Volumes {
			f.volumes.alone[v.ID] = f.volumes.alone[v.ID] || v.Alone
			if _, known := f.volumes.names[v.ID]; !known {
				f.volumes.names[v.ID] = v.Driver
			}
		}
	}
	for _, d := range demandsOf(requested) {
		f.active = append(f.active, d.resource)
	}
	return f
}

// usedAlone reports whether the shape has a volume that only one pod may use and that is in use.
func (f *fleet) usedAlone(shape int) bool {
	return slices.ContainsFunc(f.shapes[shape].Volumes, func(v model.Volume) bool {
		return f.volumes.alone[v.ID] && (f.volumes.inUse[v.ID] || f.state.InUse(shape))
	})
}

// open adds a node that was planned elsewhere. The limits of its pool are already charged.
func (f *fleet) open(n Node) {
	i := len(f.nodes)
	x := &node{
		view: n.View, types: slices.Clone(n.Types), zones: slices.Clone(n.Zones), capacity: slices.Clone(n.Capacity),
		custom: n.Custom, relaxed: n.Relaxed,
	}
	f.nodes = append(f.nodes, x)
	for _, c := range n.Shapes {
		f.record(c.Shape, i, int32(c.N))
		f.addPods(x, c.Shape, c.N)
	}
	x.load = n.Load
	x.free = f.mostLeft(x)
	f.version++
	if !x.tooFull(f.least) {
		at, _ := slices.BinarySearchFunc(f.order, x.pods+1, func(o, pods int) int { return f.nodes[o].pods - pods })
		f.order = slices.Insert(f.order, at, i)
	}
}

// launch adds the tried node, and charges the pool's limits with the largest it may become.
func (f *fleet) launch(shape int, n *node, t *trial) int {
	i := len(f.nodes)
	n.types, n.zones, n.capacity = slices.Clone(n.types), slices.Clone(n.zones), slices.Clone(n.capacity)
	f.nodes = append(f.nodes, n)
	f.order = append(f.order, i)
	f.commit(shape, i, len(f.order)-1, t)
	f.pools.charge(n.view, n.types)
	return i
}

// commit applies the trial to node i. at is its position in the order.
func (f *fleet) commit(shape, i, at int, t *trial) {
	n := f.nodes[i]
	moved := len(n.shapes) > 0 && (!slices.Equal(n.zones, t.zones) || !slices.Equal(n.capacity, t.capacity) ||
		len(n.custom) != len(t.custom) || f.dependsOnTypes(n))
	if moved {
		f.recordAll(i, -1)
	}
	n.adopt(t)
	if moved {
		f.recordAll(i, 1)
	}
	f.record(shape, i, 1)
	f.addPods(n, shape, 1)
	n.free = t.most.Minus(n.load)
	f.reorder(at)
}

// adopt copies the trial to the node.
func (n *node) adopt(t *trial) {
	n.types = append(n.types[:0], t.types...)
	n.zones = append(n.zones[:0], t.zones...)
	n.capacity = append(n.capacity[:0], t.capacity...)
	n.custom = t.custom
}

// dependsOnTypes reports whether the type or a custom label decides some topology's label.
func (f *fleet) dependsOnTypes(n *node) bool {
	return slices.ContainsFunc(f.pools.list[n.view].topologies, func(t topology) bool {
		return t.source == byType || t.source == byCustom
	})
}

func (f *fleet) addPods(n *node, shape, count int) {
	s := &f.shapes[shape]
	n.load = n.load.Plus(s.Requests.NonNegative().Times(int64(count)))
	n.pods += count
	if x := slices.IndexFunc(n.shapes, func(c ShapeCount) bool { return c.Shape == shape }); x >= 0 {
		n.shapes[x].N += count
	} else {
		n.shapes = append(n.shapes, ShapeCount{shape, count})
	}
	n.ports = append(n.ports, s.HostPorts...)
	for i := range s.Volumes {
		v := &s.Volumes[i]
		f.volumes.inUse[v.ID] = f.volumes.alone[v.ID]
		if !slices.ContainsFunc(n.volumes, func(o *model.Volume) bool { return o.ID == v.ID }) {
			n.volumes = append(n.volumes, v)
		}
	}
}

// mostLeft returns, of each resource that pods request, the most that some type has left.
func (f *fleet) mostLeft(n *node) model.Resources {
	var most model.Resources
	for _, r := range f.active {
		most[r] = math.MinInt64
	}
	net := f.pools.list[n.view].view.Net
	for t := range n.types.All() {
		for _, r := range f.active {
			most[r] = max(most[r], net[t][r])
		}
	}
	return most.Minus(n.load)
}

// reorder moves a node that got a pod before the first node of the order with as many, or removes it from the order
// if it is too full for every pod.
func (f *fleet) reorder(at int) {
	i := f.order[at]
	n := f.nodes[i]
	if n.tooFull(f.least) {
		f.order = slices.Delete(f.order, at, at+1)
		return
	}
	to := at
	for to+1 < len(f.order) && f.nodes[f.order[to+1]].pods < n.pods {
		f.order[to] = f.order[to+1]
		to++
	}
	f.order[to] = i
}

// counts are what planned nodes add to one of the State's counters.
type counts struct {
	topology int
	certain  []int32          // by domain: pods on nodes that are sure to be in it
	possible []int32          // by domain: pods on nodes that may be in it, or in another
	host     []int32          // by node, of the topology hostname
	total    int64            // of certain and host
	on       [][]rules.Option // by view: which nodes count for a spread; nil if all do
}

// counter returns the counts of a counter. New counts include the nodes planned so far.
func (f *fleet) counter(c int) *counts {
	for len(f.counts) <= c {
		i := len(f.counts)
		f.counts = append(f.counts, counts{topology: f.state.CounterTopology(i), on: f.countsOn(i)})
		for n := range f.nodes {
			for _, sc := range f.nodes[n].shapes {
				if f.isAbout(i, sc.Shape) {
					f.add(i, n, int32(sc.N))
				}
			}
		}
	}
	return &f.counts[c]
}

// isAbout reports whether the counter counts pods of the shape.
func (f *fleet) isAbout(c, shape int) bool {
	return slices.Contains(f.state.PodCounters(shape), int32(c)) || slices.Contains(f.state.OwnerCounters(shape), c)
}

// countsOn returns the options by which a node counts for a spread.
func (f *fleet) countsOn(c int) [][]rules.Option {
	shape, spread := f.state.SpreadNodes(c)
	if shape == nil || !spread.Untainted && (spread.AnyNode || len(shape.Required) == 0 && len(shape.AnyOf) == 0) {
		return nil
	}
	out := make([][]rules.Option, len(f.pools.list))
	for i, pool := range f.pools.list {
		if _, bad := model.Untolerated(pool.view.Pool.Taints, shape.Tolerations); bad && spread.Untainted {
			continue
		}
		if spread.AnyNode {
			out[i] = pool.view.Options(nil, nil)
			continue
		}
		out[i] = pool.view.Options(shape.Required, shape.AnyOf)
	}
	return out
}

// includes reports whether a node counts for the spread that the counts are for.
func (c *counts) includes(n *node) bool {
	if c.on == nil {
		return true
	}
	for i := range c.on[n.view] {
		o := &c.on[n.view][i]
		if n.types.Intersects(o.Types) && rules.Compatible(n.custom, o.Custom) &&
			n.zones.Intersects(o.Zones) && n.capacity.Intersects(o.Capacity) {
			return true
		}
	}
	return false
}

// record counts n pods of a shape on node i in all counters that count them.
func (f *fleet) record(shape, i int, n int32) {
	for _, c := range f.state.PodCounters(shape) {
		f.counter(int(c))
		f.add(int(c), i, n)
	}
	for _, c := range f.state.OwnerCounters(shape) {
		f.counter(c)
		f.add(c, i, n)
	}
}

func (f *fleet) recordAll(i int, sign int32) {
	for _, c := range f.nodes[i].shapes {
		f.record(c.Shape, i, sign*int32(c.N))
	}
}

// add counts n pods on node i in one counter.
func (f *fleet) add(counter, i int, n int32) {
	c := &f.counts[counter]
	x := f.nodes[i]
	if !c.includes(x) {
		return
	}
	f.version++
	t := f.pools.topology(x.view, c.topology)
	if t.source == byHost {
		c.host = grown(c.host, i)
		c.host[i] += n
		c.total += int64(n)
		return
	}
	f.domains = t.possible(f.domains[:0], x.types, x.zones, x.capacity, x.custom)
	if len(f.domains) == 1 {
		d := int(f.domains[0])
		c.certain = grown(c.certain, d)
		c.certain[d] += n
		c.total += int64(n)
		return
	}
	for _, d := range f.domains {
		c.possible = grown(c.possible, int(d))
		c.possible[d] += n
	}
}

// at returns the number of pods that are sure to be in a domain.
func (f *fleet) at(counter int, domain int32) int32 {
	return f.state.CountIn(counter, domain) + get(f.counter(counter).certain, int(domain))
}

func grown(list []int32, i int) []int32 {
	for len(list) <= i {
		list = append(list, 0)
	}
	return list
}

func get(list []int32, i int) int32 {
	if i < 0 || i >= len(list) {
		return 0
	}
	return list[i]
}
