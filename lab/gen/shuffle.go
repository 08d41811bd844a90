package gen

import (
	"math/rand/v2"

	"github.com/nodeless/nodeless/engine/model"
)

// Shuffle returns a copy of s, deep enough to be sorted, in which everything that has a canonical order is in a
// random one.
func Shuffle(s *model.Snapshot, seed uint64) *model.Snapshot {
	r := source{rand.New(rand.NewPCG(seed, 1))}
	out := *s
	shapes := r.Perm(len(s.Shapes))
	at := make([]int, len(shapes))
	out.Shapes = make([]model.Shape, len(shapes))
	for i, old := range shapes {
		out.Shapes[i], at[old] = r.shuffledShape(s.Shapes[old]), i
	}
	out.Pending = shuffled(r, s.Pending)
	for i := range out.Pending {
		out.Pending[i].Shape = at[out.Pending[i].Shape]
	}
	out.Nodes = shuffled(r, s.Nodes)
	for i := range out.Nodes {
		n := &out.Nodes[i]
		n.Pods, n.AttachLimits = shuffled(r, n.Pods), shuffled(r, n.AttachLimits)
		for j := range n.Pods {
			if shape := n.Pods[j].Shape; shape >= 0 {
				n.Pods[j].Shape = at[shape]
			}
		}
	}
	out.Pools, out.Daemons = shuffled(r, s.Pools), shuffled(r, s.Daemons)
	for i := range out.Pools {
		types := shuffled(r, out.Pools[i].Types)
		for j := range types {
			types[j].Offerings, types[j].AttachLimits = shuffled(r, types[j].Offerings), shuffled(r, types[j].AttachLimits)
		}
		out.Pools[i].Types = types
	}
	for i := range out.Daemons {
		out.Daemons[i].Shape = r.shuffledShape(out.Daemons[i].Shape)
	}
	out.Namespaces = shuffled(r, s.Namespaces)
	for i := range out.Namespaces {
		out.Namespaces[i].Labels = shuffled(r, out.Namespaces[i].Labels)
	}
	return &out
}

// shuffledShape shuffles a shape except for the order of terms, which is the pod's own.
func (r source) shuffledShape(s model.Shape) model.Shape {
	s.Labels = shuffled(r, s.Labels)
	s.Affinity = append([]model.PodTerm(nil), s.Affinity...)
	s.AntiAffinity = append([]model.PodTerm(nil), s.AntiAffinity...)
	s.PreferredPods = append([]model.PodPreference(nil), s.PreferredPods...)
	s.Spread = append([]model.Spread(nil), s.Spread...)
	for _, selector := range s.Selectors() {
		selector.Namespaces = shuffled(r, selector.Namespaces)
	}
	return s
}

func shuffled[T any](r source, from []T) []T {
	out := append([]T(nil), from...)
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}
