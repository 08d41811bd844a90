package rules

import "github.com/nodeless/nodeless/engine/model"

// manyNodes is the number of nodes after which an affinity is judged by label value instead of by node.
const manyNodes = 64

// want is a requirement on many nodes: each label value that occurs is judged once.
type want struct {
	model.Requirement
	topology int
	known    []verdict // by domain
}

// wantsOf prepares the alternatives of an affinity. It returns nil if one of them depends on more than label values
// that nodes share.
func (nr *nodeRules) wantsOf(alternatives []model.Requirements) [][]want {
	for _, rs := range alternatives {
		for i := range rs {
			if rs[i].Key == model.NodeNameField || rs[i].Key == model.LabelHostname {
				return nil
			}
		}
	}
	out := make([][]want, len(alternatives))
	for i, rs := range alternatives {
		for _, r := range rs {
			out[i] = append(out[i], want{Requirement: r, topology: nr.Topology(r.Key)})
		}
	}
	return out
}

// judgeAffinity reports whether a node satisfies one of the alternatives. A node in flight is judged individually,
// since several values of a label may have to satisfy it.
func (nr *nodeRules) judgeAffinity(c *affinityClass, node int) bool {
	if c.judged++; c.judged == manyNodes {
		c.byValue = nr.wantsOf(c.wants)
	}
	if c.byValue == nil || nr.Node(node).State == model.InFlight {
		for _, rs := range c.wants {
			if nr.Satisfies(node, rs) {
				return true
			}
		}
		return false
	}
	for _, wants := range c.byValue {
		if nr.haveAll(wants, node) {
			return true
		}
	}
	return false
}

func (nr *nodeRules) haveAll(wants []want, node int) bool {
	for i := range wants {
		if !nr.has(&wants[i], node) {
			return false
		}
	}
	return true
}

// has reports whether a node that is not in flight satisfies the requirement.
func (nr *nodeRules) has(w *want, node int) bool {
	t := nr.domains(w.topology)
	d := t.byNode[node]
	switch {
	case d == NoDomain:
		return w.AllowsAbsence()
	case d < 0:
		return nr.Satisfies(node, model.Requirements{w.Requirement})
	}
	if int(d) >= len(w.known) {
		w.known = append(w.known, make([]verdict, len(t.names)-len(w.known))...)
	}
	if w.known[d] == 0 {
		w.known[d] = noLabel
		if w.Has(t.names[d]) {
			w.known[d] = yes
		}
	}
	return w.known[d] == yes
}
