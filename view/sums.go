package view

// Sums are sums over nodes.
type Sums struct {
	Rows        int   // Nodes, and NodeClaims that have no Node yet
	Nodes       int   // those with a Node
	NotReady    int   // launching, or not ready any more
	Going       int   // being deleted, disrupted or interrupted
	Priced      int   // those whose price is known: see NodeRow.Priced
	Unpriced    int   // those whose price is unknown
	Pods        int   // bound to them
	Price       int64 // of those whose price is known, in millionths of a dollar an hour
	Requests    Amounts
	Allocatable Amounts
}

func (s *Sums) add(o *Sums, sign int) {
	s.Rows += sign * o.Rows
	s.Nodes += sign * o.Nodes
	s.NotReady += sign * o.NotReady
	s.Going += sign * o.Going
	s.Priced += sign * o.Priced
	s.Unpriced += sign * o.Unpriced
	s.Pods += sign * o.Pods
	s.Price += int64(sign) * o.Price
	s.Requests.add(&o.Requests, int64(sign))
	s.Allocatable.add(&o.Allocatable, int64(sign))
}

// sums returns the Sums of one node.
func (x *nodeEntry) sums() Sums {
	s := Sums{Rows: 1, Price: x.price(), Allocatable: x.allocatable()}
	if x.node != nil {
		s.Nodes, s.Pods, s.Requests = 1, x.use.pods, x.comparable(x.use.requests)
	}
	switch st := x.status(); {
	case st.going():
		s.Going = 1
	case st != StatusReady && st != StatusDrifted && st != StatusCordoned && st != StatusUnknown:
		s.NotReady = 1
	}
	if x.priced() {
		s.Priced = 1
	} else if !x.microVM() && (x.claim == nil || x.node != nil || !x.claim.Launched.IsZero()) {
		s.Unpriced = 1 // what is not launched yet costs nothing, and a microVM's cost is part of its host's
	}
	return s
}

// Totals are the sums of a cluster.
type Totals struct {
	Sums
	Waiting    int // pods without a node, including gated ones
	Pending    int // pods in that phase, including those with a node
	Running    int
	Bound      int // pods with a node that have not ended
	PoolCount  int
	Notes      []string // what viewers should know, sorted by source
	OnTheirWay int      // NodeClaims that have no Node yet
}

// Totals returns the sums over all nodes and pods. They are maintained as facts change, not computed.
func (m *Model) Totals() Totals {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.totals()
}

func (m *Model) totals() Totals {
	return Totals{
		Sums: m.total, Waiting: m.waiting, Pending: m.phases[Pending], Running: m.phases[Running], Bound: m.bound,
		PoolCount: len(m.pools), Notes: sortedNotes(m.notes), OnTheirWay: m.total.Rows - m.total.Nodes,
	}
}
