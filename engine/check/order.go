package check

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// order looks for a sequence in which the pods of the plan can be bound. It is greedy: pods with spread or affinity
// go first, those that raise the lowest domain before others; of the pods without such needs, one that a selector
// matches is bound whenever that helps. The greedy choice is sound because more pods never make affinity harder, and
// make a spread harder only in their own domain. If it gets stuck, it retries with other priorities, then
// exhaustively (exhaust.go).
type order struct {
	j        *coexistence
	known    map[string]*counter
	counters []*counter
	feeds    [][]*counter // by shape: counters of its pods
	needs    []*needs     // by shape; nil if it has no constraints on other pods
	queues   []*queue
	rest     []helper              // pods without needs that some selector matches
	helpers  map[*counter][]helper // by counter: those of rest that it counts and that are not bound
	inStages bool                  // see runInStages
}

// needs are the constraints of a shape on the pods bound before it.
type needs struct {
	near   []*counter // by affinity term: pods that match all terms
	first  bool       // the pod matches its own terms: it may be the first if no other pod does
	spread []spreadNeed
}

type spreadNeed struct {
	*counter
	rule *model.Spread
	self int // 1 if the pod itself is counted
}

// queue is the pods of a shape whose hosts are in the same domains.
type queue struct {
	shape  int
	in     []int // domains, of near and then spread
	loads  []helper
	next   int // load from which pods are taken
	left   int
	urgent bool // an earlier attempt got stuck on it
}

// helper is a load on a host.
type helper struct {
	*load
	at int
}

const tries = 5

// bindable: there is an order in which each pod of the plan is allowed at its turn.
func (j *coexistence) bindable() {
	o := &order{
		j: j, known: map[string]*counter{},
		feeds: make([][]*counter, len(j.s.Shapes)), needs: make([]*needs, len(j.s.Shapes)),
	}
	_, planned := j.present()
	for i := range j.s.Shapes {
		if planned[i] {
			o.needs[i] = o.needsOf(i)
		}
	}
	if len(o.counters) == 0 {
		return
	}
	for _, c := range o.counters {
		for i, yes := range c.matches {
			if yes {
				o.feeds[i] = append(o.feeds[i], c)
			}
		}
	}
	o.enqueue()
	var stuck []*queue
	for try := 0; try == 0 || len(stuck) > 0 && try < tries; try++ {
		o.prepare(stuck)
		o.inStages = try%2 == 1
		stuck = o.run()
	}
	if len(stuck) == 0 {
		return
	}
	found, all := o.anyOrder(stuck)
	if found {
		return
	}
	o.prepare(nil)
	stuck = o.run()
	unproven := !all && !o.noOrder(stuck)
	before := len(j.found)
	for i, q := range stuck {
		if i < 5 {
			o.report(q)
		}
	}
	for i := before; i < len(j.found); i++ {
		j.found[i].Unproven = unproven
	}
}

func (o *order) needsOf(shape int) *needs {
	s := &o.j.s.Shapes[shape]
	n := &needs{first: len(s.Affinity) > 0}
	if len(s.Affinity) > 0 {
		text := "near"
		matches := make([]bool, len(o.j.s.Shapes))
		for i := range matches {
			matches[i] = true
		}
		for i := range s.Affinity {
			text += " " + selectorText(&s.Affinity[i].Pods)
			for k, yes := range o.j.chosenBy(&s.Affinity[i].Pods) {
				matches[k] = matches[k] && yes
			}
		}
		n.first = matches[shape]
		for i := range s.Affinity {
			n.near = append(n.near, o.counter(text, s.Affinity[i].Topology, matches, nil))
		}
	}
	for i := range s.Spread {
		sp := &s.Spread[i]
		if !sp.Hard {
			continue
		}
		need := spreadNeed{counter: o.spreadCounter(s, sp), rule: sp}
		if o.j.chosenBy(&sp.Pods)[shape] {
			need.self = 1
		}
		n.spread = append(n.spread, need)
	}
	if len(n.near)+len(n.spread) == 0 {
		return nil
	}
	return n
}

// enqueue counts the pods that are bound, and sorts the planned ones: those with needs by shape and domains, and the
// rest.
func (o *order) enqueue() {
	type key struct {
		shape int
		in    string
	}
	known := map[key]*queue{}
	o.j.each(func(at int, m *host, l *load) {
		if !l.planned {
			for _, c := range o.feeds[l.shape] {
				if !c.here[at] {
					continue
				}
				c.start[c.places.at[at].in] += l.n
				if c.spread {
					c.start[c.places.at[at].in] -= l.leaving
				}
			}
			return
		}
		n := o.needs[l.shape]
		if n == nil || !o.hasDomains(n, at, m, l) {
			if len(o.feeds[l.shape]) > 0 {
				o.rest = append(o.rest, helper{l, at})
			}
			return
		}
		in := o.domainsOf(n, at)
		k := key{l.shape, string(encode(in))}
		if known[k] == nil {
			known[k] = &queue{shape: l.shape, in: in}
			o.queues = append(o.queues, known[k])
		}
		known[k].loads = append(known[k].loads, helper{l, at})
	})
	slices.SortStableFunc(o.queues, func(a, b *queue) int { return cmp.Compare(o.slack(a), o.slack(b)) })
}

func (n *needs) counters() []*counter {
	out := slices.Clone(n.near)
	for _, s := range n.spread {
		out = append(out, s.counter)
	}
	return out
}

// hasDomains: a host has each label that a hard constraint refers to, with a known value.
func (o *order) hasDomains(n *needs, at int, m *host, l *load) bool {
	ok := true
	for i, c := range n.counters() {
		place := c.places.at[at]
		promise := "topology spread"
		if i < len(n.near) {
			promise = "pod affinity"
		}
		switch {
		case place.in >= 0:
			continue
		case place.open():
			o.j.fail("domain open", podName(l.first), "has %s by %s, but which one %s will have is open", promise, c.topology,
				m.name)
		default:
			o.j.fail(promise, podName(l.first), "is by %s, which %s has not", c.topology, m.name)
		}
		ok = false
	}
	return ok
}

func (o *order) domainsOf(n *needs, at int) (in []int) {
	for _, c := range n.counters() {
		in = append(in, c.places.at[at].in)
	}
	return in
}

func encode(in []int) (out []byte) {
	for _, d := range in {
		out = append(out, byte(d), byte(d>>8), byte(d>>16), byte(d>>24))
	}
	return out
}

// slack returns the skew that the queue's strictest spread allows; it is largest for pods with affinity only.
func (o *order) slack(q *queue) int64 {
	out := int64(1) << 40
	for _, s := range o.needs[q.shape].spread {
		out = min(out, int64(s.rule.MaxSkew))
	}
	return out
}
