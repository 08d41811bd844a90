package view

import "slices"

// machine is a row of nodes: a Node, the NodeClaim it comes from, or both.
type machine struct {
	node  *Node
	claim *Claim
	use   *use // of its Node; nil without one

	id      uint64 // its own among all that ever were in this Model
	at      int    // its index in Model.machines
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
			x = m.newMachine()
		}
		m.byNode[n.Name] = x
		if x.use = m.uses[n.Name]; x.use == nil {
			x.use = &use{}
			m.uses[n.Name] = x.use
		}
		x.use.machine = x
	}
	if x.node != nil {
		m.forgetProvider(x.node.ProviderID, x)
	}
	x.node = n
	m.rememberProvider(n.ProviderID, x)
	m.recount(x)
}

// unmatched is the machine of a claim without a Node yet, to which a Node belongs.
func (m *Model) unmatched(providerID, name string) *machine {
	if x := m.byProvider[providerID]; providerID != "" && x != nil && x.node == nil {
		return x
	}
	if x := m.expected[name]; x != nil && x.node == nil {
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
	if x.use.machine = nil; x.use.pods == 0 {
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
		x = m.newMachine()
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

// home is the machine whose Node is a claim's, if it has no other claim.
func (m *Model) home(c *Claim) *machine {
	x := m.byProvider[c.ProviderID]
	if c.ProviderID == "" || x == nil {
		x = m.byNode[c.Node]
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

func (m *Model) loseClaim(x *machine) {
	m.forgetProvider(x.claim.ProviderID, x)
	delete(m.expected, x.claim.Node)
	x.claim = nil
	m.settle(x)
}

func (m *Model) newMachine() *machine {
	m.lastID++
	x := &machine{id: m.lastID, at: len(m.machines)}
	m.machines = append(m.machines, x)
	return x
}

// settle counts what is left of a machine that lost its Node or its claim, or takes it off the list.
func (m *Model) settle(x *machine) {
	if x.node != nil || x.claim != nil {
		if x.node != nil {
			m.rememberProvider(x.node.ProviderID, x)
		} else {
			m.rememberProvider(x.claim.ProviderID, x)
		}
		m.recount(x)
		return
	}
	m.uncount(x)
	m.untouch(x)
	last := len(m.machines) - 1
	m.machines[x.at] = m.machines[last]
	m.machines[x.at].at = x.at
	m.machines = slices.Delete(m.machines, last, last+1)
}

func (m *Model) rememberProvider(id string, x *machine) {
	if id != "" && m.byProvider[id] == nil {
		m.byProvider[id] = x
	}
}

func (m *Model) forgetProvider(id string, x *machine) {
	if m.byProvider[id] == x {
		delete(m.byProvider, id)
	}
}

// recount brings the totals up to date with one machine, in constant time.
func (m *Model) recount(x *machine) {
	m.uncount(x)
	m.touch(x)
	x.hay = ""
	x.counted, x.pool = x.sums(), x.label(labelPool)
	m.total.add(&x.counted, +1)
	if m.perPool[x.pool] == nil {
		m.perPool[x.pool] = &Sums{}
	}
	m.perPool[x.pool].add(&x.counted, +1)
}

func (m *Model) uncount(x *machine) {
	m.total.add(&x.counted, -1)
	if s := m.perPool[x.pool]; s != nil {
		if s.add(&x.counted, -1); s.Machines == 0 {
			delete(m.perPool, x.pool)
		}
	}
	x.counted = Sums{}
}
