package view

import (
	"cmp"
	"slices"
)

// Journal collects which nodes have changed since it was last read, so that the holder of a copy of a Model need not
// compare all of it.
type Journal struct {
	m     *Model
	dirty map[*nodeEntry]struct{}
	gone  []uint64
}

// Changes are what a Journal has collected.
type Changes struct {
	Set    []Box    // nodes that are new or changed, in no order
	Gone   []uint64 // IDs of removed nodes
	Totals Totals
}

// Box is a node with the pods that are bound to it.
type Box struct {
	ID uint64 // of the node, through its life as a NodeClaim, as both, and as a Node; a Model never reuses it
	NodeRow
	Pods []Cell // in the order of Model.PodsOf
}

// Cell is a pod at a glance.
type Cell struct {
	Phase    Phase
	Deleting bool
	System   bool // of namespace kube-system
}

// Journal starts a Journal, in which all existing nodes are new. A Model has at most one Journal, the newest.
func (m *Model) Journal() *Journal {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.journal = &Journal{m: m, dirty: make(map[*nodeEntry]struct{}, len(m.entries))}
	for _, x := range m.entries {
		m.journal.dirty[x] = struct{}{}
	}
	return m.journal
}

// Take returns the collected changes and starts over. Its cost depends only on the changed nodes and their pods.
func (j *Journal) Take() Changes {
	m := j.m
	m.mu.Lock()
	defer m.mu.Unlock()
	out := Changes{Gone: j.gone, Totals: m.totals(), Set: make([]Box, 0, len(j.dirty))}
	for x := range j.dirty {
		out.Set = append(out.Set, Box{ID: x.id, NodeRow: m.row(x), Pods: m.cells(x)})
	}
	j.dirty, j.gone = map[*nodeEntry]struct{}{}, nil
	return out
}

// touch notes that a node has changed; x may be nil.
func (t *nodeTable) touch(x *nodeEntry) {
	if t.journal != nil && x != nil {
		t.journal.dirty[x] = struct{}{}
	}
}

// touchAbout notes that the event about an object has changed.
func (t *nodeTable) touchAbout(o Object) {
	switch o.Kind {
	case "Node":
		t.touch(t.byNode[o.Name])
	case "NodeClaim":
		t.touch(t.byClaim[o.Name])
	}
}

// untouch notes that a node has been removed.
func (t *nodeTable) untouch(x *nodeEntry) {
	if t.journal != nil {
		delete(t.journal.dirty, x)
		t.journal.gone = append(t.journal.gone, x.id)
	}
}

// inOrder are the pods of a node in the order of its cells.
func (t *podTable) inOrder(x *nodeEntry) []*Pod {
	if x.use == nil || x.use.pods == 0 {
		return nil
	}
	pods := t.podsAt(x.node.Name)
	slices.SortFunc(pods, func(a, b *Pod) int {
		if a.Namespace == b.Namespace {
			return Natural(a.Name, b.Name)
		}
		return cmp.Or(Natural(a.Namespace+"/", b.Namespace+"/"), Natural(a.Name, b.Name))
	})
	return pods
}

func (t *podTable) cells(x *nodeEntry) []Cell {
	pods := t.inOrder(x)
	cells := make([]Cell, len(pods))
	for i, p := range pods {
		cells[i] = Cell{p.Phase, p.Deleting, p.Namespace == systemNamespace}
	}
	return cells
}

const systemNamespace = "kube-system"

// PodsMatching returns the pods that a filter matches, by the name of their Node, as indices into its cells; pods
// without a Node are under "". An empty filter matches nothing.
func (m *Model) PodsMatching(filter string) map[string][]int {
	f := ParseFilter(filter)
	out := map[string][]int{}
	if len(f.words) == 0 {
		return out
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.uses {
		pods := m.podsAt(name)
		if !slices.ContainsFunc(pods, func(p *Pod) bool { return f.matches(p.haystack(""), p.field) }) {
			continue
		}
		var o orderOf[*Pod]
		m.orderPods(&o, pods, Query{})
		for i, l := range o.lines {
			if f.matches(l.of.haystack(""), l.of.field) {
				out[name] = append(out[name], i)
			}
		}
	}
	return out
}
