package view

import (
	"slices"
	"strings"
	"time"
)

// Query is a request for rows of one kind.
type Query struct {
	Filter string
	Sort   Sort
	Group  string // for nodes, a field or label; for costs, GroupWorkload; "" = none
	Window Window
}

// Window is the visible part of the rows, around the selected row.
type Window struct {
	Key    string // of the selected row; "" = the one at Index
	Index  int    // of the selected row, if no row has that Key
	Top    int    // index of the first visible row
	Height int    // number of visible rows; 0 = all
}

// Page is the visible part of the rows. Its Window holds the key and index of the row that is selected, and the first
// row, as they turned out.
type Page[R any] struct {
	Window Window
	Lines  int // number of all rows, including group heads
	Rows   []R
	Of     int // number of things before the filter
	Shown  int // number of things after the filter
}

// Line is the head of a group, or a node.
type Line struct {
	Group string // the group's value, for a head
	Head  *Sums  // of the group; nil for a node
	Row   NodeRow
}

// orderOf caches rows in order until something changes.
type orderOf[T any] struct {
	made    bool
	version uint64
	query   Query // without its window
	lines   []lineOf[T]
	of      int
	shown   int
}

type lineOf[T any] struct {
	key  string
	head *Sums
	of   T
}

// fresh reports whether the cached order is the requested one. If not, it clears the order for the new request.
func (o *orderOf[T]) fresh(version uint64, q Query) bool {
	q.Window = Window{}
	if o.made && o.version == version && o.query == q {
		return true
	}
	o.made, o.version, o.query, o.lines, o.of, o.shown = true, version, q, o.lines[:0], 0, 0
	return false
}

// window returns the visible part, which contains the selected row and moves no further than necessary.
func window[T any](lines []lineOf[T], w Window) (Window, []lineOf[T]) {
	if w.Key != "" {
		if i := slices.IndexFunc(lines, func(l lineOf[T]) bool { return l.key == w.Key }); i >= 0 {
			w.Index = i
		}
	}
	if w.Index = max(0, min(w.Index, len(lines)-1)); len(lines) == 0 {
		w.Key, w.Top = "", 0
		return w, nil
	}
	w.Key = lines[w.Index].key
	if w.Height <= 0 {
		w.Top = 0
		return w, lines
	}
	w.Top = max(0, min(w.Top, w.Index, len(lines)-w.Height))
	if w.Index >= w.Top+w.Height {
		w.Top = w.Index - w.Height + 1
	}
	return w, lines[w.Top:min(len(lines), w.Top+w.Height)]
}

// Nodes returns a page of nodes.
func (m *Model) Nodes(q Query) Page[Line] {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := &m.nodes
	if !o.fresh(m.version, q) {
		m.orderNodes(q)
	}
	p := Page[Line]{Lines: len(o.lines), Of: o.of, Shown: o.shown}
	var seen []lineOf[*nodeEntry]
	p.Window, seen = window(o.lines, q.Window)
	p.Rows = make([]Line, len(seen))
	for i, l := range seen {
		if l.head != nil {
			p.Rows[i] = Line{Group: l.key[len(headKey):], Head: l.head}
		} else {
			p.Rows[i].Row = m.row(l.of)
		}
	}
	return p
}

// headKey begins the key of a group's head; no object's name begins with it.
const headKey = "="

func (m *Model) orderNodes(q Query) {
	o := &m.nodes
	filter := ParseFilter(q.Filter)
	ranks := make([]rank[*nodeEntry], 0, len(m.entries))
	for _, x := range m.entries {
		if len(filter.words) == 0 || filter.matches(x.haystack(), x.field) {
			ranks = append(ranks, ranked(x, &q, m.resources))
		}
	}
	sorted(ranks, q.Sort)
	o.of, o.shown = len(m.entries), len(ranks)
	var head *Sums
	for i := range ranks {
		r := &ranks[i]
		if q.Group != "" && (i == 0 || ranks[i-1].group != r.group) {
			head = &Sums{}
			o.lines = append(o.lines, lineOf[*nodeEntry]{key: headKey + r.group, head: head})
		}
		if head != nil {
			head.add(&r.of.counted, +1)
		}
		o.lines = append(o.lines, lineOf[*nodeEntry]{key: r.name, of: r.of})
	}
}

// Node returns a node by its key; false if it does not exist.
func (m *Model) Node(name string) (NodeRow, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	x := m.byNode[name]
	if x == nil {
		x = m.byClaim[name]
	}
	if x == nil {
		return NodeRow{}, false
	}
	return m.row(x), true
}

// PodRow is a pod as it is shown.
type PodRow struct {
	Namespace, Name, Node string
	Created               time.Time
	Phase                 Phase
	Deleting, Gated       bool
	Requests              Amounts
	Why                   string // why it is pending, or where it is to run: from our event, else from the scheduler
}

// Key returns the row's key in a Window.
func (r PodRow) Key() string { return r.Namespace + "/" + r.Name }

// PodsOf returns a page of a Node's pods, by namespace and name unless the query sorts otherwise.
func (m *Model) PodsOf(node string, q Query) Page[PodRow] {
	m.mu.Lock()
	defer m.mu.Unlock()
	var pods []*Pod
	if node != "" { // pods without a node have a page of their own
		pods = m.podsAt(node)
	}
	var o orderOf[*Pod]
	m.orderPods(&o, pods, q)
	o.of = len(pods)
	return m.podPage(&o, q)
}

// Waiting returns a page of the pods without a node, longest waiting first unless the query sorts otherwise.
func (m *Model) Waiting(q Query) Page[PodRow] {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := &m.pending
	if !o.fresh(m.version, q) {
		m.orderPods(o, m.podsAt(""), q)
		o.of = m.waiting
	}
	return m.podPage(o, q)
}

// GroupOf returns the value of the group whose head has this key in a Window; false for a node's key.
func GroupOf(key string) (string, bool) { return strings.CutPrefix(key, headKey) }
