package sim

import (
	"slices"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// pod is a pod of the trace in the cluster.
type pod struct {
	shape   int32
	turn    uint32 // incremented when the pod is bound or unbound
	key     model.PodKey
	created time.Duration
	node    *node // nil while it waits
	left    time.Duration
	ends    time.Duration // while it runs
	since   time.Duration // when it began to wait
	placed  bool          // it has run before
	nominee *node         // the node it is nominated to, while it waits
}

// schedule binds a pod if it fits on a node now; otherwise the pod waits.
func (r *run) schedule(id int32) {
	if i := r.scheduler.Find(int(r.pods[id].shape)); i >= 0 {
		r.bind(id, i)
		return
	}
	r.waiting = append(r.waiting, id)
	r.changed()
	r.planSoon()
}

// fill binds waiting pods to a node that has become schedulable or gained free capacity.
func (r *run) fill(n *node) {
	if len(r.waiting) == 0 || !n.schedulable {
		return
	}
	at := r.position(n)
	r.waiting = slices.DeleteFunc(r.waiting, func(id int32) bool {
		nominated := r.pods[id].nominee == n
		if nominated {
			r.nominate(id, nil)
		}
		if r.scheduler.Fits(int(r.pods[id].shape), at) {
			r.bind(id, at)
			return true
		}
		if nominated {
			r.nominate(id, n)
		}
		return false
	})
}

// nominate moves a waiting pod's reservation to a node; nil removes the reservation.
func (r *run) nominate(id int32, n *node) {
	p := &r.pods[id]
	if p.nominee == n {
		return
	}
	if p.nominee != nil && r.exists(p.nominee) {
		r.scheduler.Release(int(p.shape), r.position(p.nominee))
	}
	if p.nominee = n; n != nil {
		r.scheduler.Reserve(int(p.shape), r.position(n))
	}
}

// bind binds a pod to the node at a position, where it runs at once.
func (r *run) bind(id int32, at int) {
	p, n := &r.pods[id], r.nodes[at]
	r.waited(p, r.now)
	r.nominate(id, nil)
	p.node, p.placed, p.ends = n, true, r.now+p.left
	p.turn++
	r.queue.add(event{at: p.ends, kind: podEnds, pod: id, turn: p.turn})
	r.scheduler.Bind(int(p.shape), at)
	r.wasEmpty(n, r.now)
	i, _ := slices.BinarySearch(n.pods, id)
	n.pods = slices.Insert(n.pods, i, id)
	n.Pods = slices.Insert(slices.Clip(n.Pods), i, model.BoundPod{Pod: r.modelPod(p), EvictionCost: 1000})
	n.Used = n.Used.Plus(r.shapes[p.shape].Requests)
	r.podEvent(n)
}

// unbind removes a running pod from its node.
func (r *run) unbind(id int32) {
	p := &r.pods[id]
	n := p.node
	p.node = nil
	p.turn++
	i, _ := slices.BinarySearch(n.pods, id)
	n.pods = slices.Delete(n.pods, i, i+1)
	n.idleSince = r.now
	n.Pods = slices.Concat(n.Pods[:i], n.Pods[i+1:])
	n.Used = n.Used.Minus(r.shapes[p.shape].Requests)
	r.scheduler.Unbind(int(p.shape), r.position(n))
	r.podEvent(n)
}

// podEvent records that a pod was added to the node or removed from it.
func (r *run) podEvent(n *node) {
	n.LastPodEvent = r.time(r.now)
	r.touch(n)
	r.changed()
}

// arrive creates the next pod of the trace.
func (r *run) arrive() {
	id := int32(r.arrived)
	r.arrived++
	r.alive++
	r.pods[id].since = r.now
	r.schedule(id)
}

// podEnded ends a pod, unless it has moved since the event was added.
func (r *run) podEnded(e *event) {
	p := &r.pods[e.pod]
	if p.turn != e.turn {
		return
	}
	n := p.node
	r.unbind(e.pod)
	r.alive--
	r.fill(n)
}

// evict evicts all of a node's pods. They are scheduled again at once, or when their successors are created.
func (r *run) evict(n *node) {
	if !r.exists(n) {
		return
	}
	for _, id := range slices.Clone(n.pods) {
		p := &r.pods[id]
		left := p.ends - r.now
		r.unbind(id)
		if left <= 0 {
			r.alive--
			continue
		}
		if p.left = left; r.StartOver {
			p.left = r.trace[id].Life
		}
		if n.interrupted {
			r.podsInterrupted++
		} else {
			r.moves++
		}
		p.since, p.created = r.now, r.now
		if r.Successor > 0 {
			r.absent = append(r.absent, id)
			r.queue.add(event{at: r.now + r.Successor, kind: podReturns, pod: id})
			continue
		}
		r.schedule(id)
	}
}

// comeBack creates the successor of an evicted pod.
func (r *run) comeBack(id int32) {
	r.absent = slices.DeleteFunc(r.absent, func(a int32) bool { return a == id })
	r.pods[id].created = r.now
	r.changed()
	r.schedule(id)
}

// modelPod returns the pod as snapshots show it.
func (r *run) modelPod(p *pod) model.Pod {
	out := model.Pod{PodKey: p.key, Shape: int(p.shape), Created: r.time(p.created)}
	if p.nominee != nil && p.node == nil {
		out.Nominated = p.nominee.Name
	}
	return out
}
