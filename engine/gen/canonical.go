package gen

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// Canonical puts a snapshot into the order that model.Snapshot promises, and gives its shapes their keys. It changes and
// returns s.
func Canonical(s *model.Snapshot) *model.Snapshot {
	order := make([]int, len(s.Shapes))
	for i := range s.Shapes {
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
	slices.SortStableFunc(s.Daemons, func(a, b model.Daemon) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return s
}

func byCreated(a, b model.Pod) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func sortTypes(types []model.InstanceType) {
	slices.SortStableFunc(types, func(a, b model.InstanceType) int { return cmp.Compare(a.Name, b.Name) })
	for i := range types {
		slices.SortStableFunc(types[i].Offerings, func(a, b model.Offering) int {
			return cmp.Or(cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.CapacityType, b.CapacityType))
		})
	}
}

// KeyOf is a canonical text of all that a shape decides by.
func KeyOf(s *model.Shape) string {
	return fmt.Sprintf("%s; %s; %s; %v; %v; %v", s.Requests.Amounts(model.WellKnownResources), s.Required, s.AnyOf, s.Preferred, s.Tolerations, s.Unmodelled)
}
