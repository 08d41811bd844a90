package rules

import (
	"github.com/nodeless/nodeless/engine/model"
)

// counterKey identifies a counter: which pods it counts, by which topology, on which nodes.
type counterKey struct {
	pods, topology int
	nodes          int // 1 + index of eligible; 0 = all
	owners         bool
}

// counter counts pods by topology domain: those that a selector matches or, if owners, those that have an
// anti-affinity term.
type counter struct {
	topology int
	pages    []*[pageSize]int32 // by domain; nil where there are none
	total    int64              // in all domains
	unknown  int64              // on nodes whose domain is not known yet
	spread   *levels            // nil if it serves no spread constraint
}

const pageSize = 64

// counters count pods by topology domain, for topology spread and inter-pod affinity. A counter exists once a shape
// needs it; it counts the pods that are already bound and every later change.
type counters struct {
	*nodes
	*topologies
	*nodeRules
	pods       *podIndex
	all        []counter
	index      map[counterKey]int
	eligibles  []*eligible
	eligibleOf map[string]int // by what decides which nodes are eligible
}

func newCounters(ns *nodes, ts *topologies, nr *nodeRules, pods *podIndex) *counters {
	return &counters{
		nodes: ns, topologies: ts, nodeRules: nr, pods: pods, index: map[counterKey]int{},
		eligibleOf: map[string]int{},
	}
}

// at returns the count of a domain.
func (c *counter) at(domain int32) int32 {
	p := int(domain) / pageSize
	if domain < 0 || p >= len(c.pages) || c.pages[p] == nil {
		return 0
	}
	return c.pages[p][domain%pageSize]
}

// count adds n pods on a node.
func (cs *counters) count(i, node int, n int32) {
	c := &cs.all[i]
	domain := cs.domains(c.topology).byNode[node]
	switch {
	case c.spread != nil && !c.spread.in.Has(node):
		return
	case domain == unknownDomain:
		c.unknown += int64(n)
		return
	case domain < 0:
		return
	}
	c.add(domain, n)
}

func (c *counter) add(domain, n int32) {
	p := int(domain) / pageSize
	if p >= len(c.pages) {
		c.pages = append(c.pages, make([]*[pageSize]int32, p+1-len(c.pages))...)
	}
	if c.pages[p] == nil {
		c.pages[p] = new([pageSize]int32)
	}
	before := c.pages[p][domain%pageSize]
	c.pages[p][domain%pageSize] += n
	c.total += int64(n)
	if c.spread != nil {
		c.spread.move(before, before+n)
	}
}

// counterFor returns the counter for the key. It creates one if there is none, and counts the pods that are bound
// already.
func (cs *counters) counterFor(key counterKey) int {
	if i, ok := cs.index[key]; ok {
		return i
	}
	i := len(cs.all)
	cs.index[key] = i
	cs.all = append(cs.all, counter{topology: key.topology})
	if key.nodes > 0 {
		e := cs.eligibles[key.nodes-1]
		e.counters = append(e.counters, i)
		cs.all[i].spread = &levels{eligible: e, at: []int32{int32(e.domains)}}
	}
	if key.owners {
		return i
	}
	for _, id := range cs.pods.matched[key.pods] {
		cs.pods.gather()
		cs.pods.counters[id] = append(cs.pods.counters[id], int32(i))
		for _, shape := range cs.pods.shapes[id] {
			cs.countAll(i, int(shape), key.nodes == 0)
		}
	}
	return i
}

// countAll counts the pods of a shape that are bound already.
func (cs *counters) countAll(counter, shape int, leaving bool) {
	for _, runs := range cs.pods.where.of(shape, leaving) {
		for _, r := range runs {
			cs.count(counter, int(r.node), r.n)
		}
	}
}

// CounterTopology returns the topology of a counter.
func (cs *counters) CounterTopology(counter int) int { return cs.all[counter].topology }

// CountIn returns how many pods a counter counts in a domain.
func (cs *counters) CountIn(counter int, domain int32) int32 { return cs.all[counter].at(domain) }

// CountTotal returns how many pods a counter counts in all domains, and on nodes whose domain is unknown.
func (cs *counters) CountTotal(counter int) (total, unknown int64) {
	c := &cs.all[counter]
	return c.total, c.unknown
}

// SpreadNodes returns the shape and constraint that decide which nodes a spread counter covers: by the shape's node
// affinity unless the constraint says AnyNode, and by its tolerations if it says Untainted. They are nil if the
// counter serves no spread constraint.
func (cs *counters) SpreadNodes(counter int) (*model.Shape, *model.Spread) {
	l := cs.all[counter].spread
	if l == nil {
		return nil, nil
	}
	return l.shape, l.spread
}

// SpreadDomains returns the domains of the nodes that a spread counter covers.
func (cs *counters) SpreadDomains(counter int) []int32 {
	var out []int32
	if l := cs.all[counter].spread; l != nil {
		for d, n := range l.nodes {
			if n > 0 {
				out = append(out, int32(d))
			}
		}
	}
	return out
}
