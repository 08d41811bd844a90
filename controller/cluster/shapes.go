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

// like reports whether pods of the two shapes are interchangeable: they differ only in namespace and labels, and have
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

// shapes are the distinct shapes of all waiting and bound pods.
type shapes struct {
	byKey   map[string]*shape
	ordered []*shape // by key, as rendered; includes those that no pod has any more
	fresh   []*shape // added since
	changed bool     // a shape was added or dropped since the list was rendered
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

// render numbers the shapes by key. It merges the known shapes with the added ones, since workloads whose pods have
// individual labels make thousands of shapes, one at a time.
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

// merge inserts fresh into ordered, both sorted by key.
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
