package sim

import "time"

// kind is what happens. Of what happens at the same instant the lower kind is first: those who decide see all of it.
type kind uint8

const (
	departs     kind = iota // a pod ends
	becomesIdle             // a machine that was drained is gone
	ready                   // a machine is
	gaveUp                  // on a machine that did not get ready
	interrupted             // a spot machine will be taken away
	evicted                 // the pods of an interrupted machine
	returns                 // a pod that was evicted has its successor
	arrives                 // a pod is created; not in the queue
	plans                   // pods that wait get a plan
	passes                  // machines are looked at
	never
)

// event is something that happens at a time since the trace's start.
type event struct {
	at      time.Duration
	kind    kind
	seq     uint64
	pod     int32
	turn    uint32 // of the pod: the event is void if the pod has moved since
	machine *machine
}

func (e *event) before(o *event) bool {
	if e.at != o.at {
		return e.at < o.at
	}
	if e.kind != o.kind {
		return e.kind < o.kind
	}
	return e.seq < o.seq
}

// queue is a binary heap of events, the next one first.
type queue struct {
	heap []event
	seq  uint64
}

func (q *queue) add(e event) {
	q.seq++
	e.seq = q.seq
	q.heap = append(q.heap, e)
	for i := len(q.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !q.heap[i].before(&q.heap[up]) {
			return
		}
		q.heap[i], q.heap[up] = q.heap[up], q.heap[i]
		i = up
	}
}

// next takes the next event out.
func (q *queue) next() event {
	first, last := q.heap[0], len(q.heap)-1
	q.heap[0] = q.heap[last]
	q.heap = q.heap[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if q.heap[child].before(&q.heap[least]) {
				least = child
			}
		}
		if least == i {
			return first
		}
		q.heap[i], q.heap[least] = q.heap[least], q.heap[i]
		i = least
	}
}
