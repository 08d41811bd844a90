package rules

import "github.com/nodeless/nodeless/engine/model"

// affinityState is a shape's required affinity and anti-affinity to pods. Facts: kube-scheduler v1.36, plugin
// InterPodAffinity.
type affinityState struct {
	near  []int // counters of pods that match all affinity terms, by term
	self  bool  // the pod matches its own affinity terms
	apart []int // counters of pods that match an anti-affinity term, by term
}

func (cs *counters) affinityOf(s *model.Shape) affinityState {
	var a affinityState
	if len(s.Affinity) > 0 {
		all := make([]*model.Selector, len(s.Affinity))
		for i := range s.Affinity {
			all[i] = &s.Affinity[i].Pods
		}
		pods := cs.pods.selector(all...)
		a.self = true
		for i := range s.Affinity {
			a.near = append(a.near, cs.counterFor(counterKey{pods: pods, topology: cs.topology(s.Affinity[i].Topology)}))
			a.self = a.self && cs.pods.chooses(&s.Affinity[i].Pods, s)
		}
	}
	for i := range s.AntiAffinity {
		t := &s.AntiAffinity[i]
		a.apart = append(a.apart, cs.counterFor(counterKey{pods: cs.pods.selector(&t.Pods), topology: cs.topology(t.Topology)}))
	}
	return a
}

// affinityRule is what required affinity says: the pod's own, then that of pods that are there. Where a machine's domain is
// not known yet nothing is sure.
func (cs *counters) affinityRule(x *shapeState, shape, node int) model.Rule {
	if len(x.affinity.near) > 0 && !cs.nearby(&x.affinity, node) {
		return model.RuleAffinity
	}
	for _, c := range x.affinity.apart {
		if cs.present(c, node, true) {
			return model.RuleAntiAffinity
		}
	}
	for _, c := range cs.pods.againstOf(shape) {
		if cs.present(int(c), node, false) {
			return model.RuleAntiAffinity
		}
	}
	return ""
}

// nearby reports whether each term has its pods in the node's domain, or the pod is the first of a group of its own.
func (cs *counters) nearby(a *affinityState, node int) bool {
	there, none := true, a.self
	for _, i := range a.near {
		c := &cs.all[i]
		domain := cs.domains(c.topology).byNode[node]
		if domain < 0 {
			return false
		}
		there = there && c.at(domain) > 0
		none = none && c.total == 0
	}
	return there || none
}

// present reports whether pods of the counter are, or may be, in the node's domain. A pod with the constraint itself (own)
// stays away from machines whose domain is not known.
func (cs *counters) present(i, node int, own bool) bool {
	c := &cs.all[i]
	if c.total == 0 && c.unknown == 0 && !own {
		return false
	}
	domain := cs.domains(c.topology).byNode[node]
	if domain == unknownDomain {
		return own || c.total+c.unknown > 0
	}
	return domain >= 0 && (c.at(domain) > 0 || c.unknown > 0)
}
