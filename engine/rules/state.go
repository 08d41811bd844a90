package rules

import (
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// State answers, for a cluster in which pods are being bound one after another, what kube-scheduler's filters would say of
// the next one. Nodes and shapes are indices; what a shape asks of other pods is interned to counters when it is first
// looked at, so shapes that nobody asks about cost nothing. It is not safe for concurrent use.
type State struct {
	s          *model.Snapshot
	nodes      []model.Node // the snapshot's, then those that joined
	free       []model.Resources
	shapes     []shapeState
	placed     [][]run // by shape: where its pods are
	leaving    [][]run // by shape: where pods of it are that go, which spread does not count
	owned      [][]int // by shape: the owner counters of its anti-affinity terms, once a pod of it is there
	compactAt  []int   // by shape: at how many runs they are summed up
	types      map[string][]model.InstanceType
	static     static
	pods       podIndex
	topologies []topology
	counters   []counter
	eligibles  []*eligible
	ports      ports
	volumes    volumes

	topologyOf map[string]int
	eligibleOf map[string]int // by what decides it
	counterOf  map[counterKey]int
}

// run is some pods of a shape on a node; several runs of the same node add up.
type run struct{ node, n int32 }

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
	request  model.Resources
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
		nodes:      s.Nodes[:len(s.Nodes):len(s.Nodes)],
		free:       make([]model.Resources, len(s.Nodes)),
		shapes:     make([]shapeState, len(s.Shapes)),
		placed:     make([][]run, len(s.Shapes)),
		leaving:    make([][]run, len(s.Shapes)),
		owned:      make([][]int, len(s.Shapes)),
		compactAt:  make([]int, len(s.Shapes)),
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
	st.ports.init(len(s.Nodes))
	st.volumes.init(len(s.Nodes), s.Shapes)
	for i := range s.Nodes {
		n := &s.Nodes[i]
		st.free[i] = n.Allocatable.Minus(n.Used.NonNegative())
		st.addBound(i, n.Pods)
	}
	return st
}

// addBound gathers the pods that a node had from the beginning into runs.
func (st *State) addBound(node int, pods []model.BoundPod) {
	for i := range pods {
		p := &pods[i]
		if p.Shape >= 0 && p.Shape < len(st.shapes) && !p.Terminal {
			if p.Leaving {
				st.leaving[p.Shape] = append(st.leaving[p.Shape], run{int32(node), 1})
			} else {
				st.remember(p.Shape, run{int32(node), 1})
			}
			st.record(p.Shape, node, 1, p.Leaving)
			st.owns(p.Shape, node, 1)
		}
	}
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
	free := &st.free[node]
	for i := range x.asks {
		if x.asks[i].amount > free[x.asks[i].resource] {
			return model.RuleResource
		}
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
	return shape >= 0 && shape < len(st.shapes) && node >= 0 && node < len(st.nodes)
}

func (st *State) move(shape, node int, n int32) {
	if !st.known(shape, node) {
		return
	}
	x := st.shape(shape)
	free := &st.free[node]
	for i := range x.asks {
		free[x.asks[i].resource] -= int64(n) * x.asks[i].amount
	}
	st.remember(shape, run{int32(node), n})
	st.record(shape, node, n, false)
	st.owns(shape, node, n)
}

// record counts n pods of the shape on the node in every counter that is about such pods.
func (st *State) record(shape, node int, n int32, leaving bool) {
	for _, c := range st.pods.counters[st.pods.of[shape]] {
		if !leaving || st.counters[c].spread == nil {
			st.count(int(c), node, n)
		}
	}
	if shape := &st.s.Shapes[shape]; len(shape.HostPorts) > 0 || len(shape.Volumes) > 0 {
		st.ports.add(shape.HostPorts, node, n)
		st.volumes.add(shape.Volumes, node, n)
	}
}

// remember keeps where pods are, for counters that are made later.
func (st *State) remember(shape int, r run) {
	runs := st.placed[shape]
	if last := len(runs) - 1; last >= 0 && runs[last].node == r.node {
		if runs[last].n += r.n; runs[last].n == 0 {
			st.placed[shape] = runs[:last]
		}
		return
	}
	runs = append(runs, r)
	if len(runs) > max(st.compactAt[shape], 64) {
		runs = compact(runs)
		st.compactAt[shape] = 2 * len(runs)
	}
	st.placed[shape] = runs
}

func compact(runs []run) []run {
	slices.SortFunc(runs, func(a, b run) int { return int(a.node) - int(b.node) })
	out := runs[:0]
	for _, r := range runs {
		if last := len(out) - 1; last >= 0 && out[last].node == r.node {
			out[last].n += r.n
			continue
		}
		out = append(out, r)
	}
	return slices.DeleteFunc(out, func(r run) bool { return r.n == 0 })
}

// AddNode lets a machine that is planned join as a node, with the pods it names. It gives its index.
func (st *State) AddNode(n model.Node) int {
	node := len(st.nodes)
	st.nodes = append(st.nodes, n)
	st.free = append(st.free, n.Allocatable.Minus(n.Used.NonNegative()))
	st.static.grow()
	st.ports.grow()
	st.volumes.grow()
	for t := range st.topologies {
		st.topologies[t].add(st.domainOf(st.topologies[t].key, node))
	}
	st.addToSpread(node)
	st.addBound(node, n.Pods)
	return node
}

// Free is what can still be requested of a node.
func (st *State) Free(node int) model.Resources { return st.free[node] }

// Nodes is the number of nodes, those that joined included.
func (st *State) Nodes() int { return len(st.nodes) }

// Node is a node by its index; it is not to be changed.
func (st *State) Node(i int) *model.Node { return &st.nodes[i] }

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
	x.request = s.Requests.NonNegative()
	for r, amount := range x.request {
		if amount > 0 {
			x.asks = append(x.asks, ask{r, amount})
		}
	}
	switch {
	case len(s.Unmodelled) > 0:
		x.refused = model.RuleUnmodelled
	case s.Blocked != "":
		x.refused = model.RuleBlocked
	}
	x.static = st.static.classOf(s)
	x.ports = st.ports.ids(s.HostPorts)
	x.volumes = st.volumes.ids(s.Volumes)
	x.spread = st.spreadOf(s)
	x.affinity = st.affinityOf(s)
}
