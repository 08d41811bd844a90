package firstfit

import (
	"math"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
	"github.com/nodeless/nodeless/engine/rules"
)

// machine is a planned machine at work.
type machine struct {
	view     int
	shapes   []ShapeCount
	pods     int
	types    rules.Bits
	zones    rules.Bits
	capacity rules.Bits
	custom   model.Requirements
	load     model.Resources
	most     model.Resources // that some type has left
	ports    []model.HostPort
	volumes  []*model.Volume // each once
	relaxed  bool            // it need not keep minValues, since its first pod could not
}

// trial is what a machine would be with one more pod.
type trial struct {
	types, zones, capacity, pairs rules.Bits
	zonePrices, capacityPrices    []model.Price
	custom                        model.Requirements
	most                          model.Resources // that one of the types has, of resources that some shape asks for
}

func tooFull(m *machine, asks []ask) bool {
	for i := range asks {
		if asks[i].amount > m.most[asks[i].resource] {
			return true
		}
	}
	return false
}

// launch opens the machine that was tried, and charges the pool's limits with the largest it may be.
func (p *Packer) launch(shape int, m *machine) int {
	i, pool := len(p.machines), p.pools[m.view]
	m.types, m.zones, m.capacity = slices.Clone(m.types), slices.Clone(m.zones), slices.Clone(m.capacity)
	p.machines = append(p.machines, m)
	p.order = append(p.order, i)
	p.commit(shape, i, len(p.order)-1)
	limits := &pool.v.Pool.Limits
	var largest model.Resources
	for t := next(m.types, 0); t >= 0 && rules.Limited(limits); t = next(m.types, t+1) {
		largest = largest.Max(pool.v.Pool.Types[t].Capacity)
	}
	p.rooms[m.view] = p.rooms[m.view].Minus(largest)
	if rules.Limited(limits) || limits.NodesSet {
		pool.within = nil
	}
	return i
}

// commit makes the trial of machine i true; at is where it stands in the order.
func (p *Packer) commit(shape, i, at int) {
	m, t := p.machines[i], &p.try
	moved := len(m.shapes) > 0 && (!equal(m.zones, t.zones) || !equal(m.capacity, t.capacity) || len(m.custom) != len(t.custom) || p.typed(m))
	if moved {
		p.recordAll(i, -1)
	}
	p.adopt(m)
	if moved {
		p.recordAll(i, 1)
	}
	p.record(shape, i, 1)
	p.addPod(m, shape, 1)
	m.most = t.most.Minus(m.load)
	p.reorder(at)
}

// adopt makes the machine what the trial is.
func (p *Packer) adopt(m *machine) {
	t := &p.try
	m.types = append(m.types[:0], t.types...)
	m.zones = append(m.zones[:0], t.zones...)
	m.capacity = append(m.capacity[:0], t.capacity...)
	m.custom = t.custom
}

// typed reports whether some topology goes by the type or a custom label.
func (p *Packer) typed(m *machine) bool {
	return slices.ContainsFunc(p.pools[m.view].ofTopology, func(t ofTopology) bool { return t.kind == byType || t.kind == byCustom })
}

func (p *Packer) recordAll(i int, sign int32) {
	for _, sc := range p.machines[i].shapes {
		p.record(sc.Shape, i, sign*int32(sc.N))
	}
}

func (p *Packer) addPod(m *machine, shape, n int) {
	s := &p.s.Shapes[shape]
	m.load = m.load.Plus(s.Requests.NonNegative().Times(int64(n)))
	m.pods += n
	if x := slices.IndexFunc(m.shapes, func(c ShapeCount) bool { return c.Shape == shape }); x >= 0 {
		m.shapes[x].N += n
	} else {
		m.shapes = append(m.shapes, ShapeCount{shape, n})
	}
	m.ports = append(m.ports, s.HostPorts...)
	for i := range s.Volumes {
		v := &s.Volumes[i]
		p.inUse[v.ID] = p.alone[v.ID]
		if !slices.ContainsFunc(m.volumes, func(o *model.Volume) bool { return o.ID == v.ID }) {
			m.volumes = append(m.volumes, v)
		}
	}
}

// mostLeft is, of each resource that pods ask for, the most that some type has left.
func (p *Packer) mostLeft(m *machine) model.Resources {
	var most model.Resources
	for _, r := range p.active {
		most[r] = math.MinInt64
	}
	net := p.pools[m.view].v.Net
	for t := next(m.types, 0); t >= 0; t = next(m.types, t+1) {
		for _, r := range p.active {
			most[r] = max(most[r], net[t][r])
		}
	}
	return most.Minus(m.load)
}

// reorder puts the machine at a place of the order, which got a pod, before the first with as many; machines that nobody
// can join are let go.
func (p *Packer) reorder(at int) {
	i := p.order[at]
	m := p.machines[i]
	if tooFull(m, p.least) {
		p.order = slices.Delete(p.order, at, at+1)
		return
	}
	to := at
	for to+1 < len(p.order) && p.machines[p.order[to+1]].pods < m.pods {
		p.order[to] = p.order[to+1]
		to++
	}
	p.order[to] = i
}
