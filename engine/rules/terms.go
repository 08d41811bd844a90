package rules

import "github.com/nodeless/nodeless/engine/model"

// Topology is the index of a label key by which pods are near or apart.
func (st *State) Topology(key string) int { return st.topology(key) }

// TopologyKey is the label key of a topology.
func (st *State) TopologyKey(topology int) string { return st.topologies[topology].key }

// Domain is the index of a value of a topology's key; it need not be a node's.
func (st *State) Domain(topology int, value string) int32 {
	return st.domains(topology).named(value)
}

// DomainName is the value of a topology's key in a domain.
func (st *State) DomainName(topology int, domain int32) string {
	return st.domains(topology).names[domain]
}

// DomainOf is the domain of a node, below 0 if it has none or it is not known yet.
func (st *State) DomainOf(topology, node int) int32 { return st.domains(topology).byNode[node] }

// Near are the counters of pods one of which must be in the domain, by affinity term of the shape; alone says that the
// first pod of a group may go without.
func (st *State) AffinityCounters(shape int) (counters []int, alone bool) {
	a := &st.shape(shape).affinity
	return a.near, a.self
}

// Apart are the counters of pods none of which may be in the domain, by anti-affinity term of the shape.
func (st *State) AntiAffinityCounters(shape int) []int { return st.shape(shape).affinity.apart }

// Against are the counters of pods with an anti-affinity term that the shape matches.
func (st *State) AvoidedByCounters(shape int) []int32 {
	st.shape(shape)
	return st.pods.againstOf(shape)
}

// Counting are the counters that count pods of the shape for what they are.
func (st *State) PodCounters(shape int) []int32 { return st.pods.countersOf(shape) }

// Owned are the counters that count pods of the shape for their anti-affinity terms.
func (st *State) OwnerCounters(shape int) []int {
	st.own(shape)
	return st.owners.counters[shape]
}

// Spreads are the DoNotSchedule constraints of the shape.
func (st *State) SpreadTerms(shape int) []SpreadTerm { return st.shape(shape).spread }

// SoftSpread is a ScheduleAnyway constraint of the shape as if it were hard.
func (st *State) SoftSpread(shape int, c *model.Spread) SpreadTerm {
	return st.spreadBy(&st.s.Shapes[shape], c, []int{st.topology(c.Topology)})
}

// PodTerm is the counter of pods that a term matches, and whether it matches pods of the shape.
func (st *State) PodTerm(shape int, t *model.PodTerm) (counter int, self bool) {
	pods := st.pods.selector(&t.Pods)
	return st.counterFor(counterKey{pods: pods, topology: st.topology(t.Topology)}), st.pods.matches(pods, shape)
}

// CounterTopology is the topology of a counter.
func (st *State) CounterTopology(counter int) int { return st.counters[counter].topology }

// Counters is the number of counters there are.
func (st *State) Counters() int { return len(st.counters) }

// At is what a counter has counted on nodes of a domain.
func (st *State) CountIn(counter int, domain int32) int32 { return st.counters[counter].at(domain) }

// Counted is what a counter has counted on nodes of all domains, and on nodes whose domain is not known.
func (st *State) CountTotal(counter int) (total, unknown int64) {
	c := &st.counters[counter]
	return c.total, c.unknown
}

// SpreadNodes says which nodes count for a spread's counter: those that the shape may use by its affinity, unless the
// constraint says AnyNode; by its tolerations, if it says Untainted. Nil if nothing spreads by the counter.
func (st *State) SpreadNodes(counter int) (*model.Shape, *model.Spread) {
	l := st.counters[counter].spread
	if l == nil {
		return nil, nil
	}
	return l.shape, l.spread
}

// SpreadDomains are the domains of nodes that count for a spread's counter.
func (st *State) SpreadDomains(counter int) []int32 {
	var out []int32
	if l := st.counters[counter].spread; l != nil {
		for d, n := range l.nodes {
			if n > 0 {
				out = append(out, int32(d))
			}
		}
	}
	return out
}

// Satisfies reports whether a node's labels, and its name, are as wanted. Slow: the caller remembers.
func (st *State) Satisfies(node int, wants model.Requirements) bool { return st.satisfies(node, wants) }

// InUse reports whether a volume of the shape that only one pod may use has a user on some node.
func (st *State) InUse(shape int) bool {
	for _, id := range st.shape(shape).volumes {
		if st.volumes.all[id].alone && st.volumes.users[id] > 0 {
			return true
		}
	}
	return false
}
