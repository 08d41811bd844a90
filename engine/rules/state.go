package rules

import "github.com/nodeless/nodeless/engine/model"

// State answers, for a cluster in which pods are being bound one after another, what kube-scheduler's filters would say of
// the next one. Nodes and shapes are indices; what a shape asks of other pods is interned to counters when it is first
// looked at, so shapes that nobody asks about cost nothing. It is not safe for concurrent use.
type State struct {
	s          *model.Snapshot
	from       *State       // of the same snapshot, which knows already; nil if there is none: see Fresh
	joined     []model.Node // after the snapshot's
	room       room
	shapes     []shapeState
	types      map[string][]model.InstanceType
	static     static
	pods       podIndex
	owners     owners
	topologies []topology
	counters   []counter
	eligibles  []*eligible
	trying     bool // what is bound is noted in trail, to be taken back
	trail      []bind
	ready      *readiness // nil until it is asked for
	holding    bool       // ports and volumes are counted: some shape that was looked at has some
	ports      ports
	volumes    volumes

	topologyOf map[string]int
	eligibleOf map[string]int // by what decides it
	counterOf  map[counterKey]int
}

// ask is an amount of one resource.
type ask struct {
	resource int
	amount   int64
}

// shapeState is a shape as the filters see it.
type shapeState struct {
	ready    bool
	refused  model.Rule // what stands in the way everywhere
	asks     []ask
	static   int // class, -1 if nothing is asked of labels and taints: see static
	ports    []int
	volumes  []int
	spread   []SpreadTerm
	affinity affinityState
}

// NewState counts in the pods that are bound: shape and Terminal of Node.Pods. Their resources are part of Node.Used. A
// node's index is that in s.Nodes.
func NewState(s *model.Snapshot) *State {
	st := &State{
		s:          s,
		shapes:     make([]shapeState, len(s.Shapes)),
		types:      make(map[string][]model.InstanceType, len(s.Pools)),
		topologyOf: map[string]int{},
		eligibleOf: map[string]int{},
		counterOf:  map[counterKey]int{},
	}
	for i := range s.Pools {
		st.types[s.Pools[i].Name] = s.Pools[i].Types
	}
	st.static.init(len(s.Nodes))
	st.pods.init(s)
	st.owners.init(s)
	return st
}

// Fresh is a State as NewState makes it of the same snapshot, in which nothing was asked or bound. What costs time to find out of the
// snapshot's nodes it takes from st, which must not change meanwhile, and to which no nodes were added.
func (st *State) Fork() *State {
	out := NewState(st.s)
	out.from = st
	return out
}

// Allows is "" if the scheduler would bind a pod of the shape to the node now, else a rule that says no.
func (st *State) Allows(shape, node int) model.Rule {
	if rule := st.Admits(shape, node); rule != "" {
		return rule
	}
	return st.AllowsPods(shape, node)
}

// Admits is what Allows says of the node alone: its room, labels, taints, ports and volumes. It never becomes "" again by
// binding more pods.
func (st *State) Admits(shape, node int) model.Rule {
	if !st.known(shape, node) {
		return model.RuleUnmodelled
	}
	x := st.shape(shape)
	if !st.hasRoom(x.asks, node) {
		return model.RuleResource
	}
	if rule := st.staticRule(x, node); rule != "" {
		return rule
	}
	if len(x.ports) > 0 && st.ports.taken(x.ports, node) {
		return model.RuleHostPort
	}
	if len(x.volumes) > 0 {
		if rule := st.volumeRule(x, node); rule != "" {
			return rule
		}
	}
	return ""
}

// AllowsPods is what Allows says of other pods alone: spread and affinity, the shape's own and that of pods that are there.
func (st *State) AllowsPods(shape, node int) model.Rule {
	x := st.shape(shape)
	if len(x.spread) > 0 && !st.spreads(x, node) {
		return model.RuleSpread
	}
	return st.affinityRule(x, shape, node)
}

// Bind counts in one more pod of the shape on the node, whether or not it is allowed there.
func (st *State) Bind(shape, node int) { st.move(shape, node, 1) }

// Unbind takes one back.
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

// record counts n pods of the shape on the node in everything that is about such pods.
func (st *State) record(shape, node int, n int32, leaving bool) {
	for _, c := range st.pods.countersOf(shape) {
		if !leaving || st.counters[c].spread == nil {
			st.count(int(c), node, n)
		}
	}
	for _, c := range st.owners.counters[shape] {
		st.count(c, node, n)
	}
	if st.holding {
		st.hold(shape, node, n)
	}
}

// AddNode lets a machine that is planned join as a node, with the pods it names. It gives its index.
func (st *State) AddNode(n model.Node) int {
	node := st.Nodes()
	st.joined = append(st.joined, n)
	for r := range st.room {
		if st.room[r] != nil {
			st.room[r] = append(st.room[r], unused(&n, r))
		}
	}
	st.static.grow()
	for t := range st.topologies {
		if x := &st.topologies[t]; x.filled {
			x.add(st.domainOf(x, node))
		}
	}
	st.addToSpread(node)
	if st.pods.where.gathered {
		st.addBound(node, n.Pods)
	}
	return node
}

// Nodes is the number of nodes, those that joined included.
func (st *State) Nodes() int { return len(st.s.Nodes) + len(st.joined) }

// Node is a node by its index; it is not to be changed.
func (st *State) Node(i int) *model.Node { return st.node(i) }

func (st *State) node(i int) *model.Node {
	if i < len(st.s.Nodes) {
		return &st.s.Nodes[i]
	}
	return &st.joined[i-len(st.s.Nodes)]
}

// shape prepares a shape when it is first looked at.
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
	x.static = st.static.classOf(s)
	if len(s.HostPorts) > 0 || len(s.Volumes) > 0 {
		st.openHeld()
		x.ports = st.ports.ids(s.HostPorts)
		x.volumes = st.volumes.ids(s.Volumes)
	}
	x.spread = st.spreadOf(s)
	x.affinity = st.affinityOf(s)
	st.meet(s)
}
