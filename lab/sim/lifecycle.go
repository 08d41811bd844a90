package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

const (
	// registrationTimeout is how long a node may take to become ready (as in Karpenter).
	registrationTimeout = 15 * time.Minute
	// interruptionNotice is the time between a spot instance's interruption notice and its end. Its pods are evicted
	// evictAfter after the notice, so that replacements have time to boot.
	interruptionNotice, evictAfter = 2 * time.Minute, 90 * time.Second
)

// launch launches a node of the launch's chosen offering or, if that has no capacity, of its cheapest offering with
// capacity.
func (r *run) launch(l *model.Launch, replaces *command) (*node, error) {
	failed := r.market.errors
	key, price, ok := r.market.offer(l, r.now)
	if r.market.errors > failed {
		r.pool.Types = r.market.stocked(r.now)
		r.changed()
	}
	if !ok {
		return nil, fmt.Errorf("launch %s: no offering has capacity", l.ID)
	}
	t := r.market.types[key.Type]
	n := &node{launched: r.now, replaces: replaces}
	for _, d := range r.Daemons {
		if n.daemons.Plus(d).Fits(t.Allocatable) {
			n.daemons = n.daemons.Plus(d)
		}
	}
	n.Node = model.Node{
		Pool: l.Pool, Type: key.Type, Zone: key.Zone, CapacityType: key.CapacityType, Price: price, Labels: l.Requirements,
		Capacity: t.Capacity, Allocatable: t.Allocatable, Used: n.daemons, State: model.InFlight, Created: r.time(r.now),
	}
	r.add(n, r.labels(n))
	if r.neverReady(n) {
		r.queue.add(event{at: r.now + registrationTimeout, kind: nodeFailed, node: n})
	} else {
		r.queue.add(event{at: r.now + r.bootTime(n), kind: nodeReady, node: n})
	}
	if after, ok := r.interruption(n); ok {
		r.queue.add(event{at: r.now + after, kind: interrupted, node: n})
	}
	r.changed()
	return n, nil
}

// labels returns the labels that the node has once it is ready.
func (r *run) labels(n *node) model.Requirements {
	return model.NewRequirements(
		model.OneOf(model.LabelZone, n.Zone), model.OneOf(model.LabelCapacityType, n.CapacityType),
		model.OneOf(model.LabelPool, n.Pool)).And(r.market.types[n.Type].Requirements)
}

// ready makes a node ready, and advances the command that waits for it.
func (r *run) ready(ctx context.Context, n *node) {
	if n.interrupted {
		return
	}
	n.State, n.Initialized, n.Labels = model.Initialized, r.time(r.now), r.labels(n)
	n.idleSince = r.now
	r.booting += n.Price.Dollars() * (r.now - n.launched).Hours()
	r.setSchedulable(n, true)
	r.changed()
	r.fill(n)
	if len(r.waiting) > 0 {
		r.planSoon()
	}
	if c := n.replaces; c != nil {
		n.replaces = nil
		c.waits--
		r.advance(ctx)
	}
}

// lose terminates a node that was drained or did not become ready.
func (r *run) lose(n *node) {
	r.evict(n)
	r.terminate(n)
	if c := n.replaces; c != nil && n.State == model.InFlight {
		r.undo(c)
	}
	if len(r.waiting) > 0 {
		r.planSoon()
	}
}

// interrupt delivers the notice that the cloud will interrupt the instance.
func (r *run) interrupt(n *node) {
	if n.Deleting && n.removedBy == nil || n.interrupted || !r.exists(n) {
		return
	}
	r.interruptions++
	if !n.leaving() {
		r.leaving++
	}
	n.interrupted, n.Deleting = true, true
	r.setSchedulable(n, false)
	r.queue.add(event{at: r.now + evictAfter, kind: evicted, node: n})
	r.queue.add(event{at: r.now + interruptionNotice, kind: nodeGone, node: n})
	r.changed()
	r.planSoon()
}

// terminate terminates an instance and ends its billing.
func (r *run) terminate(n *node) {
	if !r.exists(n) {
		return
	}
	if n.leaving() {
		r.leaving--
	}
	r.bill(n, r.now)
	r.remove(n)
	r.changed()
}
