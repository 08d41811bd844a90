package rules

import (
	"fmt"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// SpreadTerm is a hard topology spread constraint of a shape: after binding, no domain may have more than MaxSkew
// pods above the emptiest one. Semantics: kube-scheduler v1.36, plugin PodTopologySpread.
type SpreadTerm struct {
	Counter    int
	Topology   int
	MaxSkew    int64
	MinDomains int
	Self       int64 // 1 if the pod itself counts
}

// eligible is the set of nodes that count for spreads by one topology; counters with equal conditions share it.
type eligible struct {
	in       Bits    // nodes that count
	nodes    []int32 // number of them by domain
	domains  int
	shape    *model.Shape // its affinity and tolerations decide
	spread   *model.Spread
	topology int
	keys     []int // topologies whose labels a node must all have
	labels   int   // class of affinity
	counters []int // that use it
}

// levels counts domains by their number of pods, over the nodes that count for a constraint.
type levels struct {
	*eligible
	at    []int32 // number of domains, by number of pods
	least int
}

// move takes a domain from one level to another.
func (l *levels) move(from, to int32) {
	l.at[max(from, 0)]--
	l.enter(to)
	for l.least < len(l.at)-1 && l.at[l.least] == 0 {
		l.least++
	}
}

func (l *levels) enter(level int32) {
	level = max(level, 0)
	for int(level) >= len(l.at) {
		l.at = append(l.at, 0)
	}
	l.at[level]++
	l.least = min(l.least, int(level))
}

// minimum returns the global minimum: the count of the emptiest domain, 0 while there are fewer domains than
// minDomains.
func (l *levels) minimum(minDomains int) int64 {
	if l.domains == 0 || l.domains < minDomains {
		return 0
	}
	return int64(l.least)
}

// spreadOf returns the shape's hard constraints.
func (cs *counters) spreadOf(s *model.Shape) []SpreadTerm {
	var out []SpreadTerm
	var keys []int
	for _, c := range s.Scheduled().Spread {
		if c.Hard {
			keys = append(keys, cs.Topology(c.Topology))
		}
	}
	for i := range s.Spread {
		if c := &s.Spread[i]; c.Hard {
			out = append(out, cs.spreadBy(s, c, keys))
		}
	}
	return out
}

func (cs *counters) spreadBy(s *model.Shape, c *model.Spread, keys []int) SpreadTerm {
	pods := cs.pods.selector(&c.Pods)
	x := SpreadTerm{Topology: cs.Topology(c.Topology), MaxSkew: int64(c.MaxSkew), MinDomains: int(c.MinDomains)}
	if cs.pods.chooses(&c.Pods, s) {
		x.Self = 1
	}
	if !c.Pods.Nothing && len(c.Pods.Labels) == 0 {
		pods = cs.pods.selector(&model.Selector{Nothing: true}) // an empty selector matches the pod itself but counts none
	}
	e := cs.eligibleFor(s, c, x.Topology, keys)
	x.Counter = cs.counterFor(counterKey{pods: pods, topology: x.Topology, nodes: 1 + e})
	return x
}

// eligibleFor returns the index of the nodes that count for a constraint.
func (cs *counters) eligibleFor(s *model.Shape, c *model.Spread, topology int, keys []int) int {
	s = s.Scheduled()
	labels := cs.affinity(s)
	if !slices.Contains(keys, topology) {
		keys = append(slices.Clip(keys), topology)
	}
	text := fmt.Sprint(topology, keys)
	if !c.AnyNode {
		text += fmt.Sprint(" affinity ", labels)
	}
	if c.Untainted {
		text += " untainted" + tolerationsText(s.Tolerations)
	}
	i, ok := cs.eligibleOf[text]
	if !ok {
		i = len(cs.eligibles)
		cs.eligibleOf[text] = i
		e := &eligible{shape: s, spread: c, topology: topology, keys: keys, labels: labels}
		cs.eligibles = append(cs.eligibles, e)
		for node := range cs.Nodes() {
			cs.consider(e, node)
		}
	}
	return i
}

// consider adds a node if it counts, and reports whether that adds a domain.
func (cs *counters) consider(e *eligible, node int) bool {
	for node/64 >= len(e.in) {
		e.in = append(e.in, 0)
	}
	if !cs.countsFor(e, node) {
		return false
	}
	e.in.Set(node)
	domain := cs.domains(e.topology).byNode[node]
	for int(domain) >= len(e.nodes) {
		e.nodes = append(e.nodes, 0)
	}
	e.nodes[domain]++
	if e.nodes[domain] > 1 {
		return false
	}
	e.domains++
	return true
}

// countsFor reports whether pods on the node count: the node has all topology keys of the pod's constraints, and the
// pod's affinity and tolerations admit the node where the constraint honours them.
func (cs *counters) countsFor(e *eligible, node int) bool {
	for _, t := range e.keys {
		if cs.domains(t).byNode[node] < 0 {
			return false
		}
	}
	return (e.spread.AnyNode || cs.affine(e.labels, node)) &&
		(!e.spread.Untainted || !untolerated(cs.Node(node).Taints, e.shape.Tolerations))
}

// addToSpread lets an added node contribute its domain, without pods at first.
func (cs *counters) addToSpread(node int) {
	for _, e := range cs.eligibles {
		if !cs.consider(e, node) {
			continue
		}
		for _, c := range e.counters {
			cs.all[c].spread.enter(0)
		}
	}
}

// spreads reports whether one more pod of the shape on the node stays within MaxSkew of all its constraints.
func (cs *counters) spreads(x *shapeState, node int) bool {
	for i := range x.spread {
		s := &x.spread[i]
		domain := cs.domains(s.Topology).byNode[node]
		if domain < 0 {
			return false
		}
		c := &cs.all[s.Counter]
		if int64(c.at(domain))+s.Self-c.spread.minimum(s.MinDomains) > s.MaxSkew {
			return false
		}
	}
	return true
}
