package sim

import (
	"container/heap"
	"time"
)

// kind is the kind of an event. At the same instant, lower kinds come first, so that decisions see all other events.
type kind uint8

const (
	podEnds     kind = iota
	nodeGone         // a drained node
	nodeReady        //
	nodeFailed       // to become ready in time
	interrupted      // the interruption notice of a spot instance
	evicted          // the pods of an interrupted node
	podReturns       // as the successor of an evicted pod
	podArrives       // not in the queue
	provision        // not in the queue
	disrupt          // not in the queue
	never
)

// event is something that happens at a time since the trace's start.
type event struct {
	at   time.Duration
	kind kind
	seq  uint64
	pod  int32
	turn uint32 // of the pod: the event is void if the pod has moved since then
	node *node
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

// queue holds events, the earliest first.
type queue struct {
	events events
	seq    uint64
}

func (q *queue) add(e event) {
	q.seq++
	e.seq = q.seq
	heap.Push(&q.events, e)
}

// events is a heap.Interface.
type events []event

func (q events) Len() int           { return len(q) }
func (q events) Less(i, j int) bool { return q[i].before(&q[j]) }
func (q events) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *events) Push(e any)        { *q = append(*q, e.(event)) }

func (q *events) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	*q = (*q)[:last]
	return e
}
