package rules

// counterKey is what makes a counter: whom it counts, by which topology, on which nodes.
type counterKey struct {
	pods, topology int
	nodes          int // 1 + index of eligible; 0 = all
	owners         bool
}

// counter counts pods by the domain they are in: those that a selector matches or, if owners, those that have an
// anti-affinity term.
type counter struct {
	topology int
	pages    []*[pageSize]int32 // by domain; nil where there is nobody
	total    int64              // in all domains
	unknown  int64              // on machines whose domain is not known yet
	spread   *levels            // nil if nobody spreads by it
}

const pageSize = 64

// at is the count of a domain.
func (c *counter) at(domain int32) int32 {
	p := int(domain) / pageSize
	if domain < 0 || p >= len(c.pages) || c.pages[p] == nil {
		return 0
	}
	return c.pages[p][domain%pageSize]
}

// count adds n pods on a node.
func (st *State) count(i, node int, n int32) {
	c := &st.counters[i]
	domain := st.domains(c.topology).byNode[node]
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

// counterFor makes a counter, or finds the same one, and counts in the pods that are there.
func (st *State) counterFor(key counterKey) int {
	if i, ok := st.counterOf[key]; ok {
		return i
	}
	i := len(st.counters)
	st.counterOf[key] = i
	st.counters = append(st.counters, counter{topology: key.topology})
	if key.nodes > 0 {
		e := st.eligibles[key.nodes-1]
		e.counters = append(e.counters, i)
		st.counters[i].spread = &levels{eligible: e, at: []int32{int32(e.domains)}}
	}
	if key.owners {
		return i
	}
	for _, id := range st.pods.matched[key.pods] {
		st.gather()
		st.pods.counters[id] = append(st.pods.counters[id], int32(i))
		for _, shape := range st.pods.shapes[id] {
			st.countAll(i, int(shape), key.nodes == 0)
		}
	}
	return i
}

// countAll counts in the pods of a shape that are there.
func (st *State) countAll(counter, shape int, leaving bool) {
	for _, runs := range st.pods.where.of(shape, leaving) {
		for _, r := range runs {
			st.count(counter, int(r.node), r.n)
		}
	}
}
