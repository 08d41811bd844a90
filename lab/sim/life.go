package sim

import (
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

const (
	// registrationTimeout is after how long a machine that does not get ready is given up (as Karpenter).
	registrationTimeout = 15 * time.Minute
	// notice is how long before its end a spot machine is told; its pods are evicted a while before that, so that
	// replacements have time.
	notice, evictAfter = 2 * time.Minute, 90 * time.Second
)

// launch starts a machine, the cheapest of the launch's candidates that has capacity; nil if none has.
func (r *run) launch(l *model.Launch, replaces *command) *machine {
	failed := r.market.errors
	key, price, ok := r.market.offer(l, r.now)
	if r.market.errors > failed {
		r.pool.Types = r.market.stocked(r.now)
		r.changed()
	}
	if !ok {
		return nil
	}
	t := r.market.types[key.Type]
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

func (r *run) getReady(m *machine) {
	if m.taken {
		return
	}
	m.node.State, m.node.Initialized = model.Initialized, r.time(r.now)
	m.idle = r.now
	r.booting += m.node.Price.Dollars() * (r.now - m.launched).Hours()
	m.node.Labels = model.NewRequirements(model.OneOf(model.LabelZone, m.node.Zone),
		model.OneOf(model.LabelCapacityType, m.node.CapacityType),
		model.OneOf(model.LabelPool, m.node.Pool)).And(r.market.types[m.node.Type].Requirements)
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
	r.bill(m, r.now)
	r.remove(m)
	r.changed()
}
