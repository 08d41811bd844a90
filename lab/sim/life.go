package sim

import (
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

const (
	// registrationTimeout is after how long a machine that does not get ready is given up (as Karpenter).
	registrationTimeout = 15 * time.Minute
	// outageMemory is how long an offering that had no capacity is not asked again (as Karpenter).
	outageMemory = 3 * time.Minute
	// notice is how long before its end a spot machine is told; its pods are evicted a while before that, so that replacements have time.
	notice, evictAfter = 2 * time.Minute, 90 * time.Second
)

// launch starts a machine, the cheapest of the launch's candidates that has capacity; nil if none has.
func (r *run) launch(l *model.Launch, replaces *command) *machine {
	key, price, ok := r.offer(l)
	if !ok {
		return nil
	}
	t := r.types[key.Type]
	m := &machine{launched: r.now, replaces: replaces}
	for _, d := range r.Daemons {
		if m.daemons.Plus(d).Fits(t.Allocatable) {
			m.daemons = m.daemons.Plus(d)
		}
	}
	m.node = model.Node{
		Pool: l.Pool, Type: key.Type, Zone: key.Zone, CapacityType: key.CapacityType, Price: price, Labels: l.Requirements,
		Capacity: t.Capacity, Allocatable: t.Allocatable, Used: m.daemons, State: model.InFlight, Created: r.time(r.now),
	}
	r.add(m)
	r.launches++
	if r.unlucky(m) {
		r.queue.add(event{at: r.now + registrationTimeout, kind: gaveUp, machine: m})
	} else {
		r.queue.add(event{at: r.now + r.bootTime(m), kind: ready, machine: m})
	}
	if after, ok := r.interruption(m); ok {
		r.queue.add(event{at: r.now + after, kind: interrupted, machine: m})
	}
	r.changed()
	return m
}

// offer is the first candidate that has capacity. What has none is not asked again for a while.
func (r *run) offer(l *model.Launch) (model.OfferingKey, model.Price, bool) {
	if !r.outOfStock(l.Chosen.OfferingKey) {
		return l.Chosen.OfferingKey, l.Chosen.Price, true
	}
	var best model.Candidate
	for _, name := range l.Types {
		for _, o := range r.types[name].Offerings {
			key := model.OfferingKey{Type: name, Zone: o.Zone, CapacityType: o.CapacityType}
			if !l.Requirements.Matches([]model.Label{{Key: model.LabelZone, Value: o.Zone}, {Key: model.LabelCapacityType, Value: o.CapacityType}, {Key: model.LabelPool, Value: l.Pool}, {Key: model.LabelInstanceType, Value: name}}) {
				continue
			}
			if (best.Type == "" || o.Price < best.Price) && !r.outOfStock(key) {
				best = model.Candidate{OfferingKey: key, Price: o.Price}
			}
		}
	}
	return best.OfferingKey, best.Price, best.Type != ""
}

// outOfStock reports whether the offering has no capacity, which is noted then.
func (r *run) outOfStock(key model.OfferingKey) bool {
	if !r.dry(key) {
		return false
	}
	r.capacityErrors++
	r.outages[key] = r.now + outageMemory
	r.stock()
	r.changed()
	return true
}

// restocked reports whether an offering may be asked again that had no capacity.
func (r *run) restocked() bool {
	for _, until := range r.outages {
		if until <= r.now {
			return true
		}
	}
	return false
}

// stock makes the pool's types such that they show which offerings lately had no capacity.
func (r *run) stock() {
	types := slices.Clone(r.Types)
	for key, until := range r.outages {
		if until <= r.now {
			delete(r.outages, key)
			continue
		}
		t := &types[slices.IndexFunc(types, func(t model.InstanceType) bool { return t.Name == key.Type })]
		t.Offerings = slices.Clone(t.Offerings)
		for i := range t.Offerings {
			if o := &t.Offerings[i]; o.Zone == key.Zone && o.CapacityType == key.CapacityType {
				o.Available = false
			}
		}
	}
	r.pool.Types = types
}

func (r *run) getReady(m *machine) {
	if m.taken {
		return
	}
	m.node.State, m.node.Initialized = model.Initialized, r.time(r.now)
	m.idle = r.now
	r.booting += m.node.Price.Dollars() * (r.now - m.launched).Hours()
	m.node.Labels = model.NewRequirements(model.OneOf(model.LabelZone, m.node.Zone), model.OneOf(model.LabelCapacityType, m.node.CapacityType),
		model.OneOf(model.LabelPool, m.node.Pool)).And(r.types[m.node.Type].Requirements)
	r.open(m, true)
	r.changed()
	r.fill(m)
	if len(r.waiting) > 0 {
		r.planSoon()
	}
	if m.replaces != nil {
		r.oneReady(m.replaces, m)
	}
}

// lose ends a machine that did not get ready or is drained.
func (r *run) lose(m *machine) {
	r.evict(m)
	r.terminate(m)
	if c := m.replaces; c != nil && m.node.State == model.InFlight {
		r.undo(c)
	}
	if len(r.waiting) > 0 {
		r.planSoon()
	}
}

// interrupt tells that the cloud will take the machine.
func (r *run) interrupt(m *machine) {
	if m.node.Deleting && m.victim == nil || m.taken || !r.exists(m) {
		return
	}
	r.interruptions++
	if !m.going() {
		r.moving++
	}
	m.taken, m.node.Deleting = true, true
	r.open(m, false)
	r.queue.add(event{at: r.now + evictAfter, kind: evicted, machine: m})
	r.queue.add(event{at: r.now + notice, kind: becomesIdle, machine: m})
	r.changed()
	r.planSoon()
}

func (r *run) exists(m *machine) bool {
	i := r.index(m)
	return i < len(r.machines) && r.machines[i] == m
}

// evict has all of a machine's pods look for other places.
func (r *run) evict(m *machine) {
	if !r.exists(m) {
		return
	}
	for _, id := range slices.Clone(m.pods) {
		p := &r.pods[id]
		left := p.ends - r.now
		r.leave(id)
		if left <= 0 {
			r.alive--
			continue
		}
		if p.left = left; r.StartOver {
			p.left = r.trace[id].Life
		}
		if m.taken {
			r.bumped++
		} else {
			r.moves++
		}
		p.since, p.created = r.now, r.now
		if r.Successor > 0 {
			r.absent = append(r.absent, id)
			r.queue.add(event{at: r.now + r.Successor, kind: returns, pod: id})
			continue
		}
		r.seek(id)
	}
}

// comeBack is the successor of a pod that was evicted.
func (r *run) comeBack(id int32) {
	r.absent = slices.DeleteFunc(r.absent, func(a int32) bool { return a == id })
	r.pods[id].created = r.now
	r.changed()
	r.seek(id)
}

// seek has a pod that is there find its place, or wait.
func (r *run) seek(id int32) {
	if !r.schedule(id) {
		r.wait(id)
	}
}

// terminate ends a machine, and its bill.
func (r *run) terminate(m *machine) {
	if !r.exists(m) {
		return
	}
	if m.going() {
		r.moving--
	}
	r.bill(m)
	r.remove(m)
	r.changed()
}
