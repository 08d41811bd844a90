package view

import (
	"cmp"
	"slices"
)

// Journal gathers which nodes changed since it was last read, so that whoever keeps a copy of a Model need not
// compare all of it.
type Journal struct {
	m     *Model
	dirty map[*nodeEntry]struct{}
	gone  []uint64
}

// Changes are what a Journal gathered.
type Changes struct {
	Set    []Box    // nodes that are new or changed, in no order
	Gone   []uint64 // IDs of nodes that went
	Totals Totals
}

// Box is a node with the pods that are bound to it.
type Box struct {
	ID uint64 // the node's, through its life as a NodeClaim, as both, and as a Node; never given twice by one Model
	NodeRow
	Pods []Cell // in the order of Model.PodsOf
}

// Cell is a pod as it is seen from afar.
type Cell struct {
	Phase    Phase
	Deleting bool
	System   bool // of namespace kube-system
}

// Journal begins to gather; everything that is there is new to it. A Model has one Journal at most, the newest.
func (m *Model) Journal() *Journal {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.journal = &Journal{m: m, dirty: make(map[*nodeEntry]struct{}, len(m.entries))}
	for _, x := range m.entries {
		m.journal.dirty[x] = struct{}{}
	}
	return m.journal
}

// Take gives what was gathered and begins anew. It costs what the nodes that changed and their pods are.
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

// touch notes that a node changed; nil is none.
func (t *nodeTable) touch(x *nodeEntry) {
	if t.journal != nil && x != nil {
		t.journal.dirty[x] = struct{}{}
	}
}

// touchAbout notes that what is said of an object changed.
func (t *nodeTable) touchAbout(o Object) {
	switch o.Kind {
	case "Node":
		t.touch(t.byNode[o.Name])
	case "NodeClaim":
		t.touch(t.byClaim[o.Name])
	}
}

// untouch notes that a node went.
func (t *nodeTable) untouch(x *nodeEntry) {
	if t.journal != nil {
		delete(t.journal.dirty, x)
		t.journal.gone = append(t.journal.gone, x.id)
	}
}

func (t *podTable) cells(x *nodeEntry) []Cell {
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
	cells := make([]Cell, len(pods))
	for i, p := range pods {
		cells[i] = Cell{p.Phase, p.Deleting, p.Namespace == systemNamespace}
	}
	return cells
}

const systemNamespace = "kube-system"

// PodsMatching are, by the name of their Node, the indices among its cells of the pods that a filter lets through;
// pods without a place are under "". An empty filter lets nothing through.
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
