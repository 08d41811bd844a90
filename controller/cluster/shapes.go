package cluster

import (
	"cmp"
	"reflect"
	"slices"

	"github.com/nodeless/nodeless/engine/model"
)

// shape is a pod shape and how many pods have it.
type shape struct {
	model.Shape
	index int // in the rendered list
	pods  int
}

// like reports whether pods of the two shapes can take each other's places: they differ in their labels alone, and have
// no rules about other pods.
func (h *shape) like(o *shape) bool {
	if h == o {
		return true
	}
	if h.Requests != o.Requests || len(h.Affinity)+len(h.AntiAffinity)+len(h.Spread)+len(h.PreferredPods) > 0 {
		return false
	}
	a, b := h.Shape, o.Shape
	a.Key, a.Namespace, a.Labels = b.Key, b.Namespace, b.Labels
	return reflect.DeepEqual(a, b)
}

// shapes are the distinct shapes of all pods that wait or have a place.
type shapes struct {
	byKey   map[string]*shape
	ordered []*shape // by key, as rendered; those that nobody has any more among them
	fresh   []*shape // came since
	changed bool     // a shape came or went since the list was rendered
	epoch   int      // counts renderings: indices are valid within one
	list    []model.Shape
}

func (s *shapes) intern(m model.Shape) *shape {
	if have, ok := s.byKey[m.Key]; ok {
		return s.hold(have)
	}
	h := &shape{Shape: m, pods: 1}
	s.byKey[m.Key], s.fresh, s.changed = h, append(s.fresh, h), true
	return h
}

func (s *shapes) hold(h *shape) *shape {
	h.pods++
	return h
}

func (s *shapes) release(h *shape) {
	if h.pods--; h.pods == 0 {
		delete(s.byKey, h.Key)
		s.changed = true
	}
}

// render numbers the shapes by key: a merge of what there was and what came, since workloads whose pods have labels of
// their own make thousands of shapes, one at a time.
func (s *shapes) render() {
	if !s.changed {
		return
	}
	unused := func(h *shape) bool { return h.pods == 0 }
	s.ordered, s.fresh = slices.DeleteFunc(s.ordered, unused), slices.DeleteFunc(s.fresh, unused)
	slices.SortFunc(s.fresh, func(a, b *shape) int { return cmp.Compare(a.Key, b.Key) })
	s.ordered = merge(s.ordered, s.fresh)
	s.list = make([]model.Shape, len(s.ordered))
	for i, h := range s.ordered {
		h.index = i
		s.list[i] = h.Shape
	}
	s.fresh, s.changed = nil, false
	s.epoch++
}

// merge puts fresh among ordered, both by key.
func merge(ordered, fresh []*shape) []*shape {
	if len(fresh) == 0 {
		return ordered
	}
	out := make([]*shape, 0, len(ordered)+len(fresh))
	for _, h := range fresh {
		i, _ := slices.BinarySearchFunc(ordered, h.Key, func(o *shape, key string) int { return cmp.Compare(o.Key, key) })
		out = append(append(out, ordered[:i]...), h)
		ordered = ordered[i:]
	}
	return append(out, ordered...)
}
