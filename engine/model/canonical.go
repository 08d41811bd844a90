package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Canonical sorts a snapshot into canonical order and gives its shapes their keys. It changes s in place and returns
// it.
func Canonical(s *Snapshot) *Snapshot {
	order := make([]int, len(s.Shapes))
	for i := range s.Shapes {
		sortShape(&s.Shapes[i])
		s.Shapes[i].Key = KeyOf(&s.Shapes[i])
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.Shapes[a].Key, s.Shapes[b].Key) })
	var shapes []Shape
	at := make([]int, len(s.Shapes))
	for _, old := range order {
		if n := len(shapes); n == 0 || shapes[n-1].Key != s.Shapes[old].Key {
			shapes = append(shapes, s.Shapes[old])
		}
		at[old] = len(shapes) - 1
	}
	s.Shapes = shapes
	renumber := func(p *Pod) {
		if p.Shape >= 0 && p.Shape < len(at) {
			p.Shape = at[p.Shape]
		}
	}
	for i := range s.Pending {
		renumber(&s.Pending[i])
	}
	for i := range s.Expected {
		renumber(&s.Expected[i])
	}
	SortPending(s.Pending)
	SortPending(s.Expected)
	slices.SortStableFunc(s.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	for i := range s.Nodes {
		n := &s.Nodes[i]
		sortAttachLimits(n.AttachLimits)
		for j := range n.Pods {
			renumber(&n.Pods[j].Pod)
		}
		slices.SortStableFunc(n.Pods, func(a, b BoundPod) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
	}
	slices.SortStableFunc(s.Pools, func(a, b Pool) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Name, b.Name))
	})
	for i := range s.Pools {
		sortOffers(&s.Pools[i])
	}
	for i := range s.Daemons {
		sortShape(&s.Daemons[i].Shape)
		s.Daemons[i].Shape.Key = KeyOf(&s.Daemons[i].Shape)
	}
	slices.SortStableFunc(s.Daemons, func(a, b Daemon) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	slices.SortStableFunc(s.Namespaces, func(a, b Namespace) int { return cmp.Compare(a.Name, b.Name) })
	for i := range s.Namespaces {
		sortLabels(s.Namespaces[i].Labels)
	}
	return s
}

// sortShape sorts the parts of a shape whose order has no meaning: its labels and the namespaces of its selectors.
func sortShape(s *Shape) {
	sortLabels(s.Labels)
	for _, selector := range s.Selectors() {
		slices.Sort(selector.Namespaces)
		selector.Namespaces = slices.Compact(selector.Namespaces)
	}
}

func sortLabels(labels []Label) {
	slices.SortStableFunc(labels, func(a, b Label) int { return cmp.Compare(a.Key, b.Key) })
}

func sortAttachLimits(limits []AttachLimit) {
	slices.SortStableFunc(limits, func(a, b AttachLimit) int { return cmp.Compare(a.Driver, b.Driver) })
}

func sortOffers(p *Pool) {
	sortTypes(p.Types)
	slices.SortStableFunc(p.Reservations, func(a, b Reservation) int { return cmp.Compare(a.ID, b.ID) })
}

func sortTypes(types []InstanceType) {
	slices.SortStableFunc(types, func(a, b InstanceType) int { return cmp.Compare(a.Name, b.Name) })
	for i := range types {
		sortAttachLimits(types[i].AttachLimits)
		sortOfferings(types[i].Offerings)
	}
}

func sortOfferings(offerings []Offering) {
	slices.SortStableFunc(offerings, func(a, b Offering) int {
		return cmp.Or(cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.CapacityType, b.CapacityType))
	})
}

// Selectors returns pointers to all pod selectors of the shape, in order.
func (s *Shape) Selectors() []*Selector {
	var out []*Selector
	for i := range s.Affinity {
		out = append(out, &s.Affinity[i].Pods)
	}
	for i := range s.AntiAffinity {
		out = append(out, &s.AntiAffinity[i].Pods)
	}
	for i := range s.PreferredPods {
		out = append(out, &s.PreferredPods[i].Pods)
	}
	for i := range s.Spread {
		out = append(out, &s.Spread[i].Pods)
	}
	return out
}

// KeyOf returns a canonical text of everything in the shape that scheduling depends on. Two shapes have equal keys if
// and only if they are equal.
func KeyOf(s *Shape) string {
	var k keyText
	k.add("%s; %s; %s; %v; %v; %v", s.Requests.Amounts(WellKnownResources), s.Required, s.AnyOf, s.Preferred,
		s.Tolerations, s.Unmodelled)
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
		k.term(&PodTerm{Topology: sp.Topology, Pods: sp.Pods})
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

type keyText struct{ strings.Builder }

func (k *keyText) add(format string, args ...any) { fmt.Fprintf(k, format, args...) }

func (k *keyText) term(t *PodTerm) {
	s := &t.Pods
	k.add(" %q %q %t %t", t.Topology, s.Namespaces, s.InMatching, s.Nothing)
	k.all(s.NamespaceLabels)
	k.all(s.Labels)
}

func (k *keyText) all(rs Requirements) {
	k.add(" [")
	for _, r := range rs {
		k.add("(%q %t %q %s %s %d %t)", r.Key, r.Complement, r.Values, boundText(r.Gte), boundText(r.Lte), r.MinValues,
			r.Present)
	}
	k.add("]")
}

func boundText(n *int64) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}
