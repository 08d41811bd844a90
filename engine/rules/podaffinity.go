package rules

import "github.com/nodeless/nodeless/engine/model"

// affinityState holds a shape's required affinity and anti-affinity to pods. Semantics: kube-scheduler v1.36, plugin
// InterPodAffinity.
type affinityState struct {
	near  []int // by affinity term: counters of pods that match all terms
	self  bool  // the pod matches its own affinity terms
	apart []int // by anti-affinity term: counters of pods that match it
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
			a.near = append(a.near, cs.counterFor(counterKey{pods: pods, topology: cs.Topology(s.Affinity[i].Topology)}))
			a.self = a.self && cs.pods.chooses(&s.Affinity[i].Pods, s)
		}
	}
	for i := range s.AntiAffinity {
		t := &s.AntiAffinity[i]
		a.apart = append(a.apart, cs.counterFor(counterKey{
			pods:     cs.pods.selector(&t.Pods),
			topology: cs.Topology(t.Topology),
		}))
	}
	return a
}

// affinityRule applies required affinity: the pod's own, then that of bound pods. Nothing is certain about a node
// whose domain is unknown.
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

// nearby reports whether the node's domain has pods for each term, or the pod is the first of a group that matches
// itself.
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

// present reports whether pods of the counter are, or may be, in the node's domain. With own, for the pod that has
// the constraint itself, it is also true on nodes whose domain is unknown.
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
