package view

import "slices"

// nodeEntry is a node: a Node, the NodeClaim it comes from, or both.
type nodeEntry struct {
	node  *Node
	claim *Claim
	use   *use // of its Node; nil if there is none

	id      uint64 // unique among all entries that this Model ever had
	at      int    // its index in nodeTable.entries
	counted Sums   // what it contributes to the totals
	pool    string // the pool to whose totals it contributes
	hay     string // the text that a filter's words are searched in; "" = to be built
}

// SetNode replaces a Node's facts.
func (m *Model) SetNode(n *Node) {
	defer m.change()()
	m.tell(func(f *mirror) { f.node(n) })
	x := m.byNode[n.Name]
	if x != nil && x.claim == nil && m.unmatched(n.ProviderID, n.Name) != nil {
		m.loseNode(x) // a cloud controller manager has set the provider ID, by which the Node joins its NodeClaim
		x = nil
	}
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

// unmatched returns the entry of the NodeClaim that a Node belongs to, if that entry has no Node yet.
func (t *nodeTable) unmatched(providerID, name string) *nodeEntry {
	if x := t.byProvider[providerID]; providerID != "" && x != nil && x.node == nil {
		return x
	}
	if x := t.expected[name]; x != nil && x.node == nil {
		return x
	}
	return nil
}

// DeleteNode removes a Node; its NodeClaim remains as a row of its own.
func (m *Model) DeleteNode(name string) {
	defer m.change()()
	m.tell(func(f *mirror) { f.unnode(name) })
	if x := m.byNode[name]; x != nil {
		m.loseNode(x)
	}
}

func (t *nodeTable) loseNode(x *nodeEntry) {
	delete(t.byNode, x.node.Name)
	if x.use.entry = nil; x.use.pods == 0 {
		delete(t.uses, x.node.Name)
	}
	t.forgetProvider(x.node.ProviderID, x)
	x.node, x.use = nil, nil
	t.settle(x)
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

// home returns the entry of a NodeClaim's Node, unless it has another NodeClaim.
func (t *nodeTable) home(c *Claim) *nodeEntry {
	x := t.byProvider[c.ProviderID]
	if c.ProviderID == "" || x == nil || x.node == nil { // its Node may not have a provider ID yet
		x = t.byNode[c.Node]
	}
	if x == nil || x.claim != nil && x.claim.Name != c.Name {
		return nil
	}
	return x
}

// DeleteClaim removes a NodeClaim; its Node remains as a row of its own.
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

// settle updates an entry that has lost its Node or its NodeClaim, or removes it if neither is left.
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

// recount updates the totals for one entry, in constant time.
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
