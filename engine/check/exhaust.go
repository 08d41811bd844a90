package check

import (
	"fmt"
	"slices"
)

// Bounds of the search through all orders.
const (
	maxPods   = 64
	maxStates = 50_000
)

// exhaust tries all orders of the pods that the stuck ones depend on, if they are few, by depth-first search that
// remembers failed states. It binds and unbinds, and leaves the counters as they were.
type exhaust struct {
	*order
	queues []*queue // pods of one shape in the same domains of all counters; needs may be nil
	failed map[string]bool
}

// anyOrder reports whether there is an order for the stuck queues and all shapes that counters link to them; if it
// finds none, it also reports whether all orders were tried.
func (o *order) anyOrder(stuck []*queue) (found, all bool) {
	linked := o.linked(stuck)
	x := exhaust{order: o, failed: map[string]bool{}}
	known := map[string]*queue{}
	pods := 0
	add := func(h helper, in []int) {
		if !linked[h.shape] {
			return
		}
		text := fmt.Sprint(h.shape, in)
		for _, c := range o.feeds[h.shape] {
			text += fmt.Sprint(" ", c.here[h.at], c.places.at[h.at].in)
		}
		if known[text] == nil {
			known[text] = &queue{shape: h.shape, in: in, loads: []helper{h}}
			x.queues = append(x.queues, known[text])
		}
		known[text].left += h.n
		pods += h.n
	}
	for _, q := range o.queues {
		for _, h := range q.loads {
			add(h, q.in)
		}
	}
	for _, h := range o.rest {
		add(h, nil)
	}
	if pods > maxPods {
		return false, false
	}
	for _, c := range o.counters {
		c.fill()
	}
	found = x.from(pods)
	return found, len(x.failed) < maxStates
}

// linked returns the shapes that a chain of counters links to the stuck queues.
func (o *order) linked(stuck []*queue) []bool {
	shapes, seen := make([]bool, len(o.needs)), map[*counter]bool{}
	for _, q := range stuck {
		shapes[q.shape] = true
	}
	for again := true; again; {
		again = false
		for i := range shapes {
			touched := slices.Clone(o.feeds[i])
			if o.needs[i] != nil {
				touched = append(touched, o.needs[i].counters()...)
			}
			shapes[i] = shapes[i] || slices.ContainsFunc(touched, func(c *counter) bool { return seen[c] })
			for _, c := range touched {
				if shapes[i] && !seen[c] {
					seen[c], again = true, true
				}
			}
		}
	}
	return shapes
}

// from reports whether the remaining pods can be bound from here.
func (x *exhaust) from(left int) bool {
	if left == 0 {
		return true
	}
	var state []byte
	for _, q := range x.queues {
		state = append(state, byte(q.left))
	}
	if x.failed[string(state)] || len(x.failed) >= maxStates {
		return false
	}
	for _, kind := range []func(*queue) bool{
		func(q *queue) bool { return q.in != nil && x.harmless(q) },
		func(q *queue) bool { return q.in != nil && !x.harmless(q) },
		func(q *queue) bool { return q.in == nil },
	} {
		for _, q := range x.queues {
			if q.left == 0 || !kind(q) || q.in != nil && x.obstacle(q) >= 0 {
				continue
			}
			at := q.loads[0].at
			x.move(q, at, 1)
			ok := x.from(left - 1)
			x.move(q, at, -1)
			if ok {
				return true
			}
		}
	}
	x.failed[string(state)] = true
	return false
}

func (x *exhaust) move(q *queue, at, n int) {
	q.left -= n
	for _, c := range x.feeds[q.shape] {
		if c.here[at] {
			c.counts[c.places.at[at].in] += n
			c.total += n
			c.lowest()
		}
	}
}
