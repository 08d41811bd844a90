package rules

import "github.com/nodeless/nodeless/engine/model"

// Near are the counters of pods one of which must be in the domain, by affinity term of the shape; alone says that the

// AffinityCounters returns, by affinity term of the shape, the counter of pods one of which must be in the domain;
// alone says that the first pod of a group may go without.
func (st *State) AffinityCounters(shape int) (counters []int, alone bool) {
	a := &st.shape(shape).affinity
	return a.near, a.self
}

// AntiAffinityCounters returns, by anti-affinity term of the shape, the counter of pods none of which may be in the
// domain.
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
	return st.spreadBy(&st.s.Shapes[shape], c, []int{st.topology(c.Topology)})
}

// PodTerm returns the counter of pods that a term matches, and whether it matches pods of the shape.
func (st *State) PodTerm(shape int, t *model.PodTerm) (counter int, self bool) {
	pods := st.pods.selector(&t.Pods)
	return st.counterFor(counterKey{pods: pods, topology: st.topology(t.Topology)}), st.pods.matches(pods, shape)
}

// SpreadNodes says which nodes count for a spread's counter: those that the shape may use by its affinity, unless the

// Satisfies reports whether a node's labels and name satisfy the requirements. It is slow; the caller caches.
func (st *State) Satisfies(node int, wants model.Requirements) bool { return st.satisfies(node, wants) }

// InUse reports whether a single-pod volume of the shape has a user on some node.
func (st *State) InUse(shape int) bool {
	for _, id := range st.shape(shape).volumes {
		if st.attachments.volumes.all[id].alone && st.attachments.volumes.users[id] > 0 {
			return true
		}
	}
	return false
}
