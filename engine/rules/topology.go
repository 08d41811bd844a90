package rules

import (
	"maps"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// Negative domains.
const (
	NoDomain      = -1 // the node does not have the label
	unknownDomain = -2 // a node in flight may get one of several values
)

// topology is a label key whose values partition the nodes into domains.
type topology struct {
	key    string
	names  []string
	index  map[string]int32 // nil while names were added in ascending order, as those of nodes are
	byNode []int32
	hint   int  // position of the key in the labels of the last node
	shared bool // index is shared with another topology
	filled bool // byNode is computed
}

// topologies are the label keys by which constraints divide nodes into domains, and the domain of each node by them.
type topologies struct {
	*nodes
	base  *topologies // of the State that this one was forked from, nil if none
	all   []topology
	index map[string]int // by key
}

func newTopologies(ns *nodes, base *topologies) *topologies {
	return &topologies{nodes: ns, base: base, index: map[string]int{}}
}

// addNode gives a node that was added its domains.
func (ts *topologies) addNode(node int) {
	for i := range ts.all {
		if t := &ts.all[i]; t.filled {
			t.add(ts.domainOf(t, node))
		}
	}
}

// share returns a copy for another State.
func (t *topology) share() topology {
	out := *t
	out.names, out.byNode, out.shared = slices.Clip(t.names), slices.Clip(t.byNode), true
	return out
}

// add appends the domain of the next node.
func (t *topology) add(name string, domain int32) {
	if domain == 0 {
		domain = t.named(name)
	}
	t.byNode = append(t.byNode, domain)
}

// named returns the index of a domain by name.
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
		if t.shared {
			t.index, t.shared = maps.Clone(t.index), false
		}
		d = int32(len(t.names))
		t.index[name] = d
		t.names = append(t.names, name)
	}
	return d
}

// Topology returns the index of a label key.
func (ts *topologies) Topology(key string) int {
	i, ok := ts.index[key]
	if !ok {
		i = len(ts.all)
		ts.index[key] = i
		ts.all = append(ts.all, topology{key: key})
	}
	return i
}

// domains returns a topology with the domains of the nodes computed. That visits every node, which many plans never
// need.
func (ts *topologies) domains(i int) *topology {
	t := &ts.all[i]
	if t.filled {
		return t
	}
	if ts.base != nil && len(ts.added) == 0 {
		*t = ts.base.domains(ts.base.Topology(t.key)).share()
		return t
	}
	t.filled, t.byNode = true, make([]int32, 0, ts.Nodes())
	for node := range ts.Nodes() {
		t.add(ts.domainOf(t, node))
	}
	return t
}

// domainOf returns the value of the label, or NoDomain or unknownDomain.
func (ts *topologies) domainOf(t *topology, node int) (string, int32) {
	n, key := ts.Node(node), t.key
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
	return ts.domainInFlight(key, n, ok)
}

// label returns the requirement on the topology's key. Nodes of a cluster tend to have the same labels, so it tries
// the position in the previous node first.
func (t *topology) label(labels model.Requirements) (*model.Requirement, bool) {
	if t.hint < len(labels) && labels[t.hint].Key == t.key {
		return &labels[t.hint], true
	}
	i, ok := slices.BinarySearchFunc(labels, t.key, func(r model.Requirement,
		key string,
	) int {
		return strings.Compare(r.Key, key)
	})
	if !ok {
		return nil, false
	}
	t.hint = i
	return &labels[i], true
}

// domainInFlight derives the domain of a node in flight from its claim and its possible types.
func (ts *topologies) domainInFlight(key string, n *model.Node, claimed bool) (string, int32) {
	switch {
	case key == model.LabelZone && n.Zone != "":
		return n.Zone, 0
	case key == model.LabelCapacityType && n.CapacityType != "":
		return n.CapacityType, 0
	case ofOffering(key):
		return "", unknownDomain
	}
	name, absent := "", 0
	types := possibleTypes(n, ts.types[n.Pool])
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

// TopologyKey returns the label key of a topology.
func (ts *topologies) TopologyKey(topology int) string { return ts.all[topology].key }

// Domain returns the index of a value of a topology's key; no node need have it.
func (ts *topologies) Domain(topology int, value string) int32 {
	return ts.domains(topology).named(value)
}

// DomainName returns the value of a topology's key in a domain.
func (ts *topologies) DomainName(topology int, domain int32) string {
	return ts.domains(topology).names[domain]
}

// DomainOf returns the domain of a node, negative if it has none or it is unknown.
func (ts *topologies) DomainOf(topology, node int) int32 { return ts.domains(topology).byNode[node] }
