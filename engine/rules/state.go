package rules

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// State answers what kube-scheduler's filters would decide about the next pod in a cluster to which pods are being
// bound one after another. It has one part for each kind of constraint; all parts see the same nodes.
//
//   - capacity: resource requests
//   - nodeRules: labels, taints and volume topology of nodes
//   - attachments: host ports and volumes
//   - counters and owners: topology spread, affinity and anti-affinity between pods
//
// Nodes and shapes are indices. The constraints of a shape on other pods become counters when the shape is first
// used, so that unused shapes cost nothing. A State must not be used by several goroutines at once.
type State struct {
	*nodes
	*topologies
	*capacity
	*nodeRules
	*counters
	pods        *podIndex
	owners      *owners
	attachments *attachments
	base        *State // what it was forked from, nil if nothing
	shapes      []shapeState
	trying      bool // changes are recorded in trail, to be undone
	trail       []bind
	ready       *readiness // nil until needed
}

// ask is an amount of one resource.
type ask struct {
	resource int
	amount   int64
}

// shapeState is a shape as the filters see it.
type shapeState struct {
	ready    bool
	refused  model.Rule // excludes every node
	asks     []ask
	class    int // of nodeRules
	ports    []int
	volumes  []int
	spread   []SpreadTerm
	affinity affinityState
}

// NewState returns the state of a snapshot, whose nodes keep their indices. Bound pods count by their Shape and
// Terminal in Node.Pods; their resources are part of Node.Used.
func NewState(s *model.Snapshot) *State { return newState(s, nil) }

// Fork returns a new state of the same snapshot. It shares with st what is expensive to compute about the snapshot's
// nodes; st must not change meanwhile and must have no added nodes.
func (st *State) Fork() *State { return newState(st.s, st) }

func newState(s *model.Snapshot, base *State) *State {
	from := base
	if from == nil {
		from = &State{}
	}
	ns := newNodes(s)
	ts := newTopologies(ns, from.topologies)
	nr, pods := newNodeRules(ns, ts), newPodIndex(ns, from.pods)
	cs := newCounters(ns, ts, nr, pods)
	return &State{
		nodes: ns, topologies: ts, capacity: &capacity{nodes: ns, base: from.capacity}, nodeRules: nr, counters: cs,
		pods: pods, owners: newOwners(cs), attachments: &attachments{nodes: ns, pods: pods},
		base: base, shapes: make([]shapeState, len(s.Shapes)),
	}
}

// Allows returns "" if kube-scheduler would bind a pod of the shape to the node now, else a rule that excludes the
// node.
func (st *State) Allows(shape, node int) model.Rule {
	if rule := st.Admits(shape, node); rule != "" {
		return rule
	}
	return st.AllowsPods(shape, node)
}

// Admits is the part of Allows about the node alone: its resources, labels, taints, ports and volumes. Binding more
// pods never turns a rule into "".
func (st *State) Admits(shape, node int) model.Rule {
	if !st.known(shape, node) {
		return model.RuleUnmodelled
	}
	x := st.shape(shape)
	if !st.hasRoom(x.asks, node) {
		return model.RuleResource
	}
	if rule := st.nodeRule(x, node); rule != "" {
		return rule
	}
	return st.attachments.rule(x, node)
}

// AllowsPods is the part of Allows about other pods: topology spread and affinity, the shape's own and that of bound
// pods.
func (st *State) AllowsPods(shape, node int) model.Rule {
	x := st.shape(shape)
	if len(x.spread) > 0 && !st.spreads(x, node) {
		return model.RuleSpread
	}
	return st.affinityRule(x, shape, node)
}

// Bind adds a pod of the shape to the node, whether or not it is allowed there.
func (st *State) Bind(shape, node int) { st.move(shape, node, 1) }

// Unbind undoes one Bind.
func (st *State) Unbind(shape, node int) { st.move(shape, node, -1) }

func (st *State) known(shape, node int) bool {
	return shape >= 0 && shape < len(st.shapes) && node >= 0 && node < st.Nodes()
}

func (st *State) move(shape, node int, n int32) {
	if !st.known(shape, node) {
		return
	}
	if st.trying {
		st.trail = append(st.trail, bind{shape, node, n})
	}
	st.take(st.shape(shape).asks, node, int64(n))
	st.pods.where.remember(shape, run{int32(node), n})
	st.record(shape, node, n, false)
}

// record updates every counter that counts pods of the shape.
func (st *State) record(shape, node int, n int32, leaving bool) {
	for _, c := range st.pods.countersOf(shape) {
		if !leaving || st.counters.all[c].spread == nil {
			st.count(int(c), node, n)
		}
	}
	for _, c := range st.owners.byShape[shape] {
		st.count(c, node, n)
	}
	if st.attachments.counted {
		st.attachments.hold(shape, node, n)
	}
}

// AddNode adds a planned node with the pods it names, and returns its index.
func (st *State) AddNode(n model.Node) int {
	node := st.Nodes()
	st.added = append(st.added, n)
	st.capacity.add(&n)
	st.nodeRules.grow()
	st.topologies.addNode(node)
	st.addToSpread(node)
	if st.pods.where.gathered {
		st.addBound(node, n.Pods)
	}
	if st.attachments.counted {
		st.attachments.ports.add(n.DaemonPorts, node, 1)
	}
	return node
}

// shape returns a shape, prepared on first use.
func (st *State) shape(i int) *shapeState {
	x := &st.shapes[i]
	if !x.ready {
		st.prepare(i, x)
	}
	return x
}

func (st *State) prepare(i int, x *shapeState) {
	s := &st.s.Shapes[i]
	x.ready = true
	x.asks = asksOf(s.Requests)
	st.open(x.asks)
	switch {
	case len(s.Unmodelled) > 0:
		x.refused = model.RuleUnmodelled
	case s.Blocked != "":
		x.refused = model.RuleBlocked
	}
	x.class = st.classOf(s)
	if len(s.HostPorts) > 0 || len(s.Volumes) > 0 {
		st.attachments.open()
		x.ports, x.volumes = st.attachments.ports.ids(s.HostPorts), st.attachments.volumes.ids(s.Volumes)
	}
	x.spread = st.spreadOf(s)
	x.affinity = st.affinityOf(s)
	st.owners.meet(s)
}

// HasRoom reports whether the node has the resources for a pod of the shape now.
func (st *State) HasRoom(shape, node int) bool {
	return st.known(shape, node) && st.hasRoom(st.shape(shape).asks, node)
}

// AffinityCounters returns, by affinity term of the shape, the counter of pods of which the domain must have one;
// alone says that the first pod of a group needs none.
func (st *State) AffinityCounters(shape int) (counters []int, alone bool) {
	a := &st.shape(shape).affinity
	return a.near, a.self
}

// AntiAffinityCounters returns, by anti-affinity term of the shape, the counter of pods of which the domain must have
// none.
func (st *State) AntiAffinityCounters(shape int) []int { return st.shape(shape).affinity.apart }

// AvoidedByCounters returns the counters of pods with an anti-affinity term that the shape matches.
func (st *State) AvoidedByCounters(shape int) []int32 {
	st.shape(shape)
	return st.pods.againstOf(shape)
}

// PodCounters returns the counters that count pods of the shape for their labels.
func (st *State) PodCounters(shape int) []int32 { return st.pods.countersOf(shape) }

// OwnerCounters returns the counters that count pods of the shape for their anti-affinity terms.
func (st *State) OwnerCounters(shape int) []int {
	st.owners.own(shape)
	return st.owners.byShape[shape]
}

// SpreadTerms returns the DoNotSchedule constraints of the shape.
func (st *State) SpreadTerms(shape int) []SpreadTerm { return st.shape(shape).spread }

// SoftSpread returns a ScheduleAnyway constraint of the shape as if it were hard.
func (st *State) SoftSpread(shape int, c *model.Spread) SpreadTerm {
	return st.spreadBy(&st.s.Shapes[shape], c, []int{st.Topology(c.Topology)})
}

// PodTerm returns the counter of pods that a term matches, and whether it matches pods of the shape.
func (st *State) PodTerm(shape int, t *model.PodTerm) (counter int, self bool) {
	pods := st.pods.selector(&t.Pods)
	return st.counterFor(counterKey{pods: pods, topology: st.Topology(t.Topology)}), st.pods.matches(pods, shape)
}

// InUse reports whether a single-pod volume of the shape has a user on some node.
func (st *State) InUse(shape int) bool {
	for _, id := range st.shape(shape).volumes {
		if st.attachments.volumes.all[id].alone && st.attachments.volumes.users[id] > 0 {
			return true
		}
	}
	return false
}

// bind is a change made during a trial: n more pods of a shape on a node.
type bind struct {
	shape, node int
	n           int32
}

// Try lets f bind and unbind pods and undoes all of it. f must not add nodes or call Try.
func (st *State) Try(f func()) {
	st.trail, st.trying = st.trail[:0], true
	f()
	st.trying = false
	for _, b := range slices.Backward(st.trail) {
		st.move(b.shape, b.node, -b.n)
	}
}

// Swap replaces a node with another version of it: one with the same name, labels, taints, state and Terminating
// pods, but different other pods, or Deleting. Afterwards n holds the previous version, so the same call undoes it.
// It changes the State's snapshot, whose Nodes must belong to the State alone, and forgets pods bound to the node
// since.
func (st *State) Swap(node int, n *model.Node) {
	at := st.Node(node)
	st.countOn(node, at.Pods, -1)
	*at, *n = *n, *at
	st.countOn(node, at.Pods, 1)
	st.capacity.reset(node)
	st.nodeRules.forget(node)
}

// countOn counts pods of a node n times, if pods are counted already.
func (st *State) countOn(node int, pods []model.BoundPod, n int32) {
	if !st.pods.where.gathered {
		return // pods are gathered when the first counter needs them
	}
	for i := range pods {
		if p := &pods[i]; st.pods.counts(p) && !p.Terminating {
			st.pods.where.remember(p.Shape, run{int32(node), n})
			st.record(p.Shape, node, n, false)
		}
	}
}
