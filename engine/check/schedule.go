package check

import "slices"

// prepare starts another attempt, in which the queues that got stuck come first.
func (o *order) prepare(stuck []*queue) {
	for _, c := range o.counters {
		c.fill()
	}
	for _, q := range o.queues {
		q.left, q.next = 0, 0
		for _, l := range q.loads {
			l.left = l.n
			q.left += l.n
		}
	}
	o.helpers = map[*counter][]helper{}
	for _, h := range o.rest {
		h.left = h.n
		for _, c := range o.feeds[h.shape] {
			if c.here[h.at] {
				o.helpers[c] = append(o.helpers[c], h)
			}
		}
	}
	for _, q := range stuck {
		q.urgent = true
	}
	slices.SortStableFunc(o.queues, func(a, b *queue) int {
		switch in := func(q *queue) bool { return slices.Contains(stuck, q) }; {
		case in(a) && !in(b):
			return -1
		case in(b) && !in(a):
			return 1
		}
		return 0
	})
}

// run binds what is allowed until everything is bound, or returns what is left.
func (o *order) run() []*queue {
	waiting := slices.Clone(o.queues)
	o.firsts(waiting)
	if o.inStages {
		o.runInStages(waiting)
	}
	return o.bindAll(waiting, o.help)
}

// runInStages binds pods that spread over the fewest domains, such as zones, first: pods that spread over hosts only
// can wait for them, but would raise their domains.
func (o *order) runInStages(waiting []*queue) {
	span := func(q *queue) int {
		least := 1 << 30
		for _, s := range o.needs[q.shape].spread {
			least = min(least, s.domains)
		}
		return least
	}
	var spans []int
	for _, q := range waiting {
		spans = append(spans, span(q))
	}
	slices.Sort(spans)
	for _, most := range slices.Compact(spans) {
		o.bindAll(slices.DeleteFunc(slices.Clone(waiting), func(q *queue) bool { return span(q) > most }),
			func([]*queue) bool { return false })
	}
}

// bindAll binds pods of the queues as long as any is allowed, with help if none is. It returns the queues that are
// left.
func (o *order) bindAll(waiting []*queue, help func([]*queue) bool) []*queue {
	for {
		waiting = slices.DeleteFunc(waiting, func(q *queue) bool { return q.left == 0 })
		switch {
		case len(waiting) == 0:
			return nil
		case o.round(waiting, o.harmless):
		case o.round(waiting, func(q *queue) bool { return q.urgent || o.raisesLowest(q) }):
		case o.round(waiting, func(q *queue) bool { return len(o.needs[q.shape].spread) > 0 }):
		case o.round(waiting, func(*queue) bool { return true }):
		case !help(waiting):
			return waiting
		}
	}
}

// firsts binds the pods that may be the first of their group where no other pod will precede them.
func (o *order) firsts(waiting []*queue) {
	for _, q := range waiting {
		n := o.needs[q.shape]
		alone := n.first && o.obstacle(q) < 0
		for i, c := range n.near {
			alone = alone && c.total == 0 && !o.comes(c, q.in[i])
		}
		if alone {
			o.bind(q)
		}
	}
}

// comes reports whether a pod that the affinity counter counts, but that does not have that affinity, will be in the
// domain.
func (o *order) comes(c *counter, domain int) bool {
	here := func(h helper) bool {
		n := o.needs[h.shape]
		return c.matches[h.shape] && c.places.at[h.at].in == domain && (n == nil || !slices.Contains(n.near, c))
	}
	return slices.ContainsFunc(o.rest, here) ||
		slices.ContainsFunc(o.queues, func(q *queue) bool { return slices.ContainsFunc(q.loads, here) })
}

// round binds one allowed pod of each queue for which now returns true, or all of the queue's pods if it has no
// spread. It reports whether it bound any.
func (o *order) round(waiting []*queue, now func(*queue) bool) bool {
	any := false
	for _, q := range waiting {
		if now(q) && o.obstacle(q) < 0 {
			o.bind(q)
			any = true
		}
	}
	return any
}

func (o *order) bind(q *queue) {
	n := 1
	if len(o.needs[q.shape].spread) == 0 {
		n = q.left
	}
	for n > 0 {
		l := q.loads[q.next]
		some := min(n, l.left)
		l.take(o, some)
		q.left -= some
		n -= some
		if l.left == 0 {
			q.next++
		}
	}
}

func (h helper) take(o *order, n int) {
	h.left -= n
	for _, c := range o.feeds[h.shape] {
		c.add(h.at, n)
	}
}

// harmless reports whether the pod is in a lowest domain of every spread that counts it.
func (o *order) harmless(q *queue) bool {
	at := q.loads[q.next].at
	for _, c := range o.feeds[q.shape] {
		if d := c.places.at[at].in; c.spread && c.here[at] && c.counts[d] > c.low {
			return false
		}
	}
	return true
}

func (o *order) raisesLowest(q *queue) bool {
	n := o.needs[q.shape]
	for i, s := range n.spread {
		if d := q.in[len(n.near)+i]; s.domain[d] && s.counts[d] > s.low {
			return false
		}
	}
	return len(n.spread) > 0
}

// obstacle returns the index of a need that does not allow a pod of the queue now, -1 if all do.
func (o *order) obstacle(q *queue) int {
	n := o.needs[q.shape]
	first := n.first
	for _, c := range n.near {
		first = first && c.total == 0
	}
	for i, c := range n.near {
		if c.counts[q.in[i]] == 0 && !first {
			return i
		}
	}
	for i, s := range n.spread {
		d := q.in[len(n.near)+i]
		if int64(s.counts[d]+s.self-s.least(s.rule.MinDomains)) > int64(s.rule.MaxSkew) {
			return len(n.near) + i
		}
	}
	return -1
}

// help binds one pod without needs for each obstacle that it removes or reduces.
func (o *order) help(waiting []*queue) bool {
	type obstacle struct {
		c      *counter
		domain int // in which a pod is needed; -1 for any that is lowest
	}
	tried, any := map[obstacle]bool{}, false
	for _, q := range waiting {
		i, near := o.obstacle(q), len(o.needs[q.shape].near)
		if i < 0 {
			continue // an earlier helper removed it
		}
		x := obstacle{o.needs[q.shape].counters()[i], -1}
		if i < near {
			x.domain = q.in[i]
		}
		if tried[x] {
			continue
		}
		tried[x] = true
		o.helpers[x.c] = slices.DeleteFunc(o.helpers[x.c], func(h helper) bool { return h.left == 0 })
		k := slices.IndexFunc(o.helpers[x.c], func(h helper) bool {
			d := x.c.places.at[h.at].in
			return d == x.domain || x.domain < 0 && x.c.counts[d] == x.c.low
		})
		if k >= 0 {
			o.helpers[x.c][k].take(o, 1)
			any = true
		}
	}
	return any
}

// report explains why the queue's pods could not be bound.
func (o *order) report(q *queue) {
	n := o.needs[q.shape]
	l := q.loads[q.next]
	object, where := podName(l.first), o.j.hosts[l.at].name
	i := o.obstacle(q)
	if i < 0 {
		return
	}
	c := n.counters()[i]
	if i < len(n.near) {
		terms := o.j.s.Shapes[q.shape].Affinity
		o.j.fail("pod affinity", object,
			"and %d like it on %s must be near pods with %s, but in %s %s there are none; there are %s",
			q.left-1, where, terms[i].Pods.Labels.String(), c.topology, c.places.names[q.in[i]], c.text())
		return
	}
	s := n.spread[i-len(n.near)]
	o.j.fail("topology spread", object,
		"and %d like it on %s: of the pods with %s, %s %s has %d and the least is %d; the skew may be %d; there are %s",
		q.left-1, where, s.rule.Pods.Labels.String(), c.topology, c.places.names[q.in[i]], c.counts[q.in[i]],
		c.least(s.rule.MinDomains), s.rule.MaxSkew, c.text())
}
