package gen

import (
	"cmp"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// Canonical puts a snapshot into the order that model.Snapshot promises, and gives its shapes their keys. It changes and
// returns s.
func Canonical(s *model.Snapshot) *model.Snapshot {
	order := make([]int, len(s.Shapes))
	for i := range s.Shapes {
		sortShape(&s.Shapes[i])
		s.Shapes[i].Key = KeyOf(&s.Shapes[i])
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.Shapes[a].Key, s.Shapes[b].Key) })
	var shapes []model.Shape
	at := make([]int, len(s.Shapes))
	for _, old := range order {
		if n := len(shapes); n == 0 || shapes[n-1].Key != s.Shapes[old].Key {
			shapes = append(shapes, s.Shapes[old])
		}
		at[old] = len(shapes) - 1
	}
	s.Shapes = shapes
	renumber := func(p *model.Pod) {
		if p.Shape >= 0 && p.Shape < len(at) {
			p.Shape = at[p.Shape]
		}
	}
	for i := range s.Pending {
		renumber(&s.Pending[i])
	}
	slices.SortStableFunc(s.Pending, byCreated)
	slices.SortStableFunc(s.Nodes, func(a, b model.Node) int { return cmp.Compare(a.Name, b.Name) })
	for i := range s.Nodes {
		n := &s.Nodes[i]
		sortAttachLimits(n.AttachLimits)
		for j := range n.Pods {
			renumber(&n.Pods[j].Pod)
		}
		slices.SortStableFunc(n.Pods, func(a, b model.BoundPod) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
	}
	slices.SortStableFunc(s.Pools, func(a, b model.Pool) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Name, b.Name))
	})
	for i := range s.Pools {
		sortTypes(s.Pools[i].Types)
	}
	for i := range s.Daemons {
		sortShape(&s.Daemons[i].Shape)
		s.Daemons[i].Shape.Key = KeyOf(&s.Daemons[i].Shape)
	}
	slices.SortStableFunc(s.Daemons, func(a, b model.Daemon) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	slices.SortStableFunc(s.Namespaces, func(a, b model.Namespace) int { return cmp.Compare(a.Name, b.Name) })
	for i := range s.Namespaces {
		sortLabels(s.Namespaces[i].Labels)
	}
	return s
}

// sortShape sorts what has no order of its own: labels, and the namespaces of selectors.
func sortShape(s *model.Shape) {
	sortLabels(s.Labels)
	for _, selector := range selectors(s) {
		slices.Sort(selector.Namespaces)
		selector.Namespaces = slices.Compact(selector.Namespaces)
	}
}

func sortLabels(labels []model.Label) {
	slices.SortStableFunc(labels, func(a, b model.Label) int { return cmp.Compare(a.Key, b.Key) })
}

func sortAttachLimits(limits []model.AttachLimit) {
	slices.SortStableFunc(limits, func(a, b model.AttachLimit) int { return cmp.Compare(a.Driver, b.Driver) })
}

func byCreated(a, b model.Pod) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func sortTypes(types []model.InstanceType) {
	slices.SortStableFunc(types, func(a, b model.InstanceType) int { return cmp.Compare(a.Name, b.Name) })
	for i := range types {
		sortAttachLimits(types[i].AttachLimits)
		slices.SortStableFunc(types[i].Offerings, func(a, b model.Offering) int {
			return cmp.Or(cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.CapacityType, b.CapacityType))
		})
	}
}
