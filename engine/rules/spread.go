package rules

import (
	"fmt"

	"github.com/nodeless/nodeless/engine/model"
)

// SpreadTerm is a topology spread constraint of a shape. After a bind no domain may have more than MaxSkew pods above the
// emptiest one. Facts: kube-scheduler v1.36, plugin PodTopologySpread.
type SpreadTerm struct {
	Counter    int
	Topology   int
	MaxSkew    int64
	MinDomains int
	Self       int64 // 1 if the pod itself is counted
}

// levels are how many domains have how many pods, over the nodes that count for a constraint.
type levels struct {
	in      Bits    // nodes that count
	nodes   []int32 // nodes that count, by domain
	domains int
	at      []int32 // domains by number of pods
	least   int
	shape   *model.Shape // whose affinity and tolerations decide which nodes count
	spread  *model.Spread
	keys    []int // topologies of which a node must have all
	labels  int   // class of affinity
}

// move takes a domain from one level to another. Only counts of domains that are known move.
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

// minimum is the global minimum: that of the emptiest domain, 0 while there are fewer domains than there should be.
func (l *levels) minimum(minDomains int) int64 {
	if l.domains == 0 || l.domains < minDomains {
		return 0
	}
	return int64(l.least)
}

// spreadOf interns the shape's hard constraints.
func (st *State) spreadOf(s *model.Shape) []SpreadTerm {
	var out []SpreadTerm
	var keys []int
	for i := range s.Spread {
		if s.Spread[i].Hard {
			keys = append(keys, st.topology(s.Spread[i].Topology))
		}
	}
	for i := range s.Spread {
		if c := &s.Spread[i]; c.Hard {
			out = append(out, st.spreadBy(s, c, keys))
		}
	}
	return out
}

func (st *State) spreadBy(s *model.Shape, c *model.Spread, keys []int) SpreadTerm {
	pods := st.pods.selector(&c.Pods)
	x := SpreadTerm{Topology: st.topology(c.Topology), MaxSkew: int64(c.MaxSkew), MinDomains: int(c.MinDomains)}
	if c.Pods.Matches(s.Namespace, st.pods.namespaces[s.Namespace], s.Labels) {
		x.Self = 1
	}
	if !c.Pods.Nothing && len(c.Pods.Labels) == 0 {
		pods = st.pods.selector(&model.Selector{Nothing: true}) // an empty selector matches the pod itself and counts nobody
	}
	l := &levels{shape: s, spread: c, keys: keys, labels: st.static.affinity(s)}
	text := fmt.Sprintf("nodes %v", keys)
	if !c.AnyNode {
		text += fmt.Sprint(" affinity ", l.labels)
	}
	if c.Untainted {
		text += tolerationsText(s.Tolerations)
	}
	key := counterKey{pods: pods, topology: x.Topology, nodes: 1 + st.intern(text)}
	x.Counter = st.counterFor(key, func() *levels { return l })
	return x
}

// intern numbers texts.
func (st *State) intern(text string) int {
	i, ok := st.texts[text]
	if !ok {
		i = len(st.texts)
		st.texts[text] = i
	}
	return i
}

// registerDomains finds the nodes that count for a spread counter, and their domains.
func (st *State) registerDomains(counter int) {
	for node := range st.nodes {
		st.registerDomain(counter, node)
	}
}

func (st *State) registerDomain(counter, node int) {
	c := &st.counters[counter]
	l := c.spread
	for node/64 >= len(l.in) {
		l.in = append(l.in, 0)
	}
	if !st.countsFor(l, node) {
		return
	}
	l.in.Set(node)
	domain := st.topologies[c.topology].byNode[node]
	for int(domain) >= len(l.nodes) {
		l.nodes = append(l.nodes, 0)
	}
	if l.nodes[domain]++; l.nodes[domain] == 1 {
		l.domains++
		l.enter(c.at(domain))
	}
}

// countsFor reports whether pods on the node count: it has all keys of the pod's constraints, and the pod may run there as
// far as the constraint asks.
func (st *State) countsFor(l *levels, node int) bool {
	for _, t := range l.keys {
		if st.topologies[t].byNode[node] < 0 {
			return false
		}
	}
	return (l.spread.AnyNode || st.affine(l.labels, node)) &&
		(!l.spread.Untainted || !untolerated(st.nodes[node].Taints, l.shape.Tolerations))
}

// addToSpread lets a node that joins be a domain.
func (st *State) addToSpread(node int) {
	for i := range st.counters {
		if st.counters[i].spread != nil {
			st.registerDomain(i, node)
		}
	}
}

// spreads reports whether one more pod of the shape keeps its skews.
func (st *State) spreads(x *shapeState, node int) bool {
	for i := range x.spread {
		s := &x.spread[i]
		domain := st.topologies[s.Topology].byNode[node]
		if domain < 0 {
			return false
		}
		c := &st.counters[s.Counter]
		if int64(c.at(domain))+s.Self-c.spread.minimum(s.MinDomains) > s.MaxSkew {
			return false
		}
	}
	return true
}
