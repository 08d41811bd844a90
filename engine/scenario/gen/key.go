package gen

import (
	"fmt"
	"strings"

	"github.com/nodeless/nodeless/engine/model"
)

// KeyOf is a canonical text of all that a shape decides by: shapes that differ in anything have different keys.
func KeyOf(s *model.Shape) string {
	var k key
	k.add("%s; %s; %s; %v; %v; %v", s.Requests.Amounts(model.WellKnownResources), s.Required, s.AnyOf, s.Preferred, s.Tolerations, s.Unmodelled)
	k.add("; %v", s.Requests)
	k.all(s.Required)
	for _, rs := range s.AnyOf {
		k.add(" any")
		k.all(rs)
	}
	for _, p := range s.Preferred {
		k.add(" prefer %d", p.Weight)
		k.all(p.Terms)
	}
	k.add("; %#v %q %q; %q %q", s.Tolerations, s.Unmodelled, s.Blocked, s.Namespace, s.Labels)
	for _, t := range s.Affinity {
		k.add("; affinity")
		k.term(&t)
	}
	for _, t := range s.AntiAffinity {
		k.add("; anti")
		k.term(&t)
	}
	for _, p := range s.PreferredPods {
		k.add("; prefer pods %d", p.Weight)
		k.term(&p.PodTerm)
	}
	for _, sp := range s.Spread {
		k.add("; spread %d %d %t %t %t", sp.MaxSkew, sp.MinDomains, sp.Hard, sp.AnyNode, sp.Untainted)
		k.term(&model.PodTerm{Topology: sp.Topology, Pods: sp.Pods})
	}
	k.add("; %#v", s.HostPorts)
	for _, v := range s.Volumes {
		k.add("; volume %q %q %t", v.ID, v.Driver, v.Alone)
		for _, rs := range v.Topology {
			k.add(" in")
			k.all(rs)
		}
	}
	return k.String()
}

type key struct{ strings.Builder }

func (k *key) add(format string, args ...any) { fmt.Fprintf(k, format, args...) }

func (k *key) term(t *model.PodTerm) {
	s := &t.Pods
	k.add(" %q %q %t %t", t.Topology, s.Namespaces, s.InMatching, s.Nothing)
	k.all(s.NamespaceLabels)
	k.all(s.Labels)
}

func (k *key) all(rs model.Requirements) {
	k.add(" [")
	for _, r := range rs {
		k.add("(%q %t %q %s %s %d %t)", r.Key, r.Complement, r.Values, bound(r.Gte), bound(r.Lte), r.MinValues, r.Present)
	}
	k.add("]")
}

func bound(n *int64) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}
