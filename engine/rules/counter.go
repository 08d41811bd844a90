package rules

import (
	"slices"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// Domains that are none.
const (
	NoDomain      = -1 // the node does not have the label
	unknownDomain = -2 // a machine in flight may get one of several values
)

// topology is a label key by whose values nodes are one domain each.
type topology struct {
	key    string
	names  []string
	index  map[string]int32 // nil while names came in ascending order, as those of nodes do
	byNode []int32
	hint   int // where the key was in the last node's labels
}

// add gives the next node its domain.
func (t *topology) add(name string, domain int32) {
	if domain == 0 {
		domain = t.named(name)
	}
	t.byNode = append(t.byNode, domain)
}

// named is the index of a domain.
func (t *topology) named(name string) int32 {
	if last := len(t.names) - 1; t.index == nil {
		switch {
		case last >= 0 && t.names[last] == name:
			return int32(last)
		case last < 0 || t.names[last] < name:
			t.names = append(t.names, name)
			return int32(last + 1)
		}
		t.index = make(map[string]int32, len(t.names))
		for d, known := range t.names {
			t.index[known] = int32(d)
		}
	}
	d, ok := t.index[name]
	if !ok {
		d = int32(len(t.names))
		t.index[name] = d
		t.names = append(t.names, name)
	}
	return d
}

// topology is the index of a key.
func (st *State) topology(key string) int {
	i, ok := st.topologyOf[key]
	if !ok {
		i = len(st.topologies)
		st.topologyOf[key] = i
		st.topologies = append(st.topologies, topology{key: key, byNode: make([]int32, 0, st.Nodes())})
		t := &st.topologies[i]
		for node := range st.Nodes() {
			t.add(st.domainOf(t, node))
		}
	}
	return i
}

// domainOf is the value of the label, or NoDomain or unknownDomain.
func (st *State) domainOf(t *topology, node int) (string, int32) {
	n, key := st.node(node), t.key
	r, ok := t.label(n.Labels)
	switch {
	case ok && !r.Complement && len(r.Values) == 1:
		return r.Values[0], 0
	case key == model.LabelHostname:
		return n.Name, 0
	case n.State != model.InFlight && (!ok || r.IsDoesNotExist()):
		return "", NoDomain
	case n.State != model.InFlight:
		return "", unknownDomain
	}
	return st.domainInFlight(key, n, ok)
}

// label is the requirement on the topology's key. Nodes of a cluster tend to have the same labels, so it is where it was.
func (t *topology) label(labels model.Requirements) (*model.Requirement, bool) {
	if t.hint < len(labels) && labels[t.hint].Key == t.key {
		return &labels[t.hint], true
	}
	i, ok := slices.BinarySearchFunc(labels, t.key, func(r model.Requirement, key string) int { return strings.Compare(r.Key, key) })
	if !ok {
		return nil, false
	}
	t.hint = i
	return &labels[i], true
}

// domainInFlight is what the claim and its possible types leave open of a label.
func (st *State) domainInFlight(key string, n *model.Node, claimed bool) (string, int32) {
	switch {
	case key == model.LabelZone && n.Zone != "":
		return n.Zone, 0
	case key == model.LabelCapacityType && n.CapacityType != "":
		return n.CapacityType, 0
	case ofOffering(key):
		return "", unknownDomain
	}
	name, absent := "", 0
	types := possibleTypes(n, st.types[n.Pool])
	for _, t := range types {
		label, ok := TypeLabel(t, key)
		switch {
		case !ok:
			absent++
		case label.Complement || len(label.Values) != 1 || name != "" && name != label.Values[0]:
			return "", unknownDomain
		default:
			name = label.Values[0]
		}
	}
	switch {
	case len(types) > 0 && absent == 0:
		return name, 0
	case len(types) > 0 && absent == len(types) && !claimed:
		return "", NoDomain
	}
	return "", unknownDomain
}

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
	domain := st.topologies[c.topology].byNode[node]
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
