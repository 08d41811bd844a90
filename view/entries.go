package view

import "slices"

// node is a row of nodes: a Node, the NodeClaim it comes from, or both.
type nodeEntry struct {
	node  *Node
	claim *Claim
	use   *use // of its Node; nil without one

	id      uint64 // its own among all that ever were in this Model
	at      int    // its index in Model.nodes
	counted Sums   // what the totals hold of it
	pool    string // under which they do
	hay     string // what a filter's words are looked for in; "" = to be made
}

// SetNode replaces a Node's facts.
func (m *Model) SetNode(n *Node) {
	defer m.change()()
	m.tell(func(f *mirror) { f.node(n) })
	x := m.byNode[n.Name]
	if x == nil {
		if x = m.unmatched(n.ProviderID, n.Name); x == nil {
			x = m.newEntry()
		}
		m.byNode[n.Name] = x
		if x.use = m.uses[n.Name]; x.use == nil {
			x.use = &use{}
			m.uses[n.Name] = x.use
		}
		x.use.entry = x
	}
	if x.node != nil {
		m.forgetProvider(x.node.ProviderID, x)
	}
	x.node = n
	m.rememberProvider(n.ProviderID, x)
	m.recount(x)
}

// unmatched is the node of a claim without a Node yet, to which a Node belongs.
func (t *nodeTable) unmatched(providerID, name string) *nodeEntry {
	if x := t.byProvider[providerID]; providerID != "" && x != nil && x.node == nil {
		return x
	}
	if x := t.expected[name]; x != nil && x.node == nil {
		return x
	}
	return nil
}

// DeleteNode forgets a Node; its claim stays a row of its own.
func (m *Model) DeleteNode(name string) {
	defer m.change()()
	m.tell(func(f *mirror) { f.unnode(name) })
	x := m.byNode[name]
	if x == nil {
		return
	}
	delete(m.byNode, name)
	if x.use.entry = nil; x.use.pods == 0 {
		delete(m.uses, name)
	}
	m.forgetProvider(x.node.ProviderID, x)
	x.node, x.use = nil, nil
	m.settle(x)
}

// SetClaim replaces a NodeClaim's facts.
func (m *Model) SetClaim(c *Claim) {
	defer m.change()()
	m.tell(func(f *mirror) { f.claim(c) })
	x := m.byClaim[c.Name]
	if home := m.home(c); home != nil && home != x {
		if x != nil {
			m.loseClaim(x)
		}
		x = home
	}
	if x == nil {
		x = m.newEntry()
	}
	if x.claim != nil {
		m.forgetProvider(x.claim.ProviderID, x)
		delete(m.expected, x.claim.Node)
	}
	m.byClaim[c.Name], x.claim = x, c
	m.rememberProvider(c.ProviderID, x)
	if c.Node != "" {
		m.expected[c.Node] = x
	}
	m.recount(x)
}

// home is the node whose Node is a claim's, if it has no other claim.
func (t *nodeTable) home(c *Claim) *nodeEntry {
	x := t.byProvider[c.ProviderID]
	if c.ProviderID == "" || x == nil {
		x = t.byNode[c.Node]
	}
	if x == nil || x.claim != nil && x.claim.Name != c.Name {
		return nil
	}
	return x
}

// DeleteClaim forgets a NodeClaim; its Node stays a row of its own.
func (m *Model) DeleteClaim(name string) {
	defer m.change()()
	m.tell(func(f *mirror) { f.to.DeleteClaim(name) })
	x := m.byClaim[name]
	if x == nil {
		return
	}
	delete(m.byClaim, name)
	m.loseClaim(x)
}

func (t *nodeTable) loseClaim(x *nodeEntry) {
	t.forgetProvider(x.claim.ProviderID, x)
	delete(t.expected, x.claim.Node)
	x.claim = nil
	t.settle(x)
}

func (t *nodeTable) newEntry() *nodeEntry {
	t.lastID++
	x := &nodeEntry{id: t.lastID, at: len(t.entries)}
	t.entries = append(t.entries, x)
	return x
}

// settle counts what is left of a node that lost its Node or its claim, or takes it off the list.
func (t *nodeTable) settle(x *nodeEntry) {
	if x.node != nil || x.claim != nil {
		if x.node != nil {
			t.rememberProvider(x.node.ProviderID, x)
		} else {
			t.rememberProvider(x.claim.ProviderID, x)
		}
		t.recount(x)
		return
	}
	t.uncount(x)
	t.untouch(x)
	last := len(t.entries) - 1
	t.entries[x.at] = t.entries[last]
	t.entries[x.at].at = x.at
	t.entries = slices.Delete(t.entries, last, last+1)
}

func (t *nodeTable) rememberProvider(id string, x *nodeEntry) {
	if id != "" && t.byProvider[id] == nil {
		t.byProvider[id] = x
	}
}

func (t *nodeTable) forgetProvider(id string, x *nodeEntry) {
	if t.byProvider[id] == x {
		delete(t.byProvider, id)
	}
}

// recount brings the totals up to date with one node, in constant time.
func (t *nodeTable) recount(x *nodeEntry) {
	t.uncount(x)
	t.touch(x)
	x.hay = ""
	x.counted, x.pool = x.sums(), x.label(labelPool)
	t.total.add(&x.counted, +1)
	if t.perPool[x.pool] == nil {
		t.perPool[x.pool] = &Sums{}
	}
	t.perPool[x.pool].add(&x.counted, +1)
}

func (t *nodeTable) uncount(x *nodeEntry) {
	t.total.add(&x.counted, -1)
	if s := t.perPool[x.pool]; s != nil {
		if s.add(&x.counted, -1); s.Rows == 0 {
			delete(t.perPool, x.pool)
		}
	}
	x.counted = Sums{}
}
