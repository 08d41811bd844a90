package cluster

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/controller/translate"
	"github.com/nodeless/nodeless/engine/model"
)

// pod is a pod that waits or has its place.
type pod struct {
	translate.Pod
	generation int64
	shape      *shape
	needs      []need // of which the shape was made, beside the pod
	budgets    []*budget
	unready    bool // says that it is not ready; kept up to date while a budget asks for it
}

// place is what is on a node.
type place struct {
	pods map[types.NamespacedName]*pod
	left time.Time // when a pod that counts was last seen to go
}

func comparePods(a, b *pod) int {
	return cmp.Or(a.Created.Compare(b.Created), compareKeys(a, b))
}

func compareKeys(a, b *pod) int {
	return cmp.Or(cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.Name, b.Key.Name), cmp.Compare(a.Key.UID, b.Key.UID))
}

func (w *World) updatePod(o *corev1.Pod, now time.Time) {
	key := keyOf(o)
	before := w.podObjects.live[key]
	if !w.podObjects.put(o, now) {
		return
	}
	old, info := w.pods[key], translate.ReadPod(o)
	w.noteLacking(key, info.WaitsFor(), &info)
	sameSpec := old != nil && o.Generation != 0 && old.generation == o.Generation && old.Key == info.Key && maps.Equal(before.Labels, o.Labels) &&
		!old.Resizing && !info.Resizing
	if sameSpec && old.Pod == info {
		w.readiness(old, o)
		return
	}
	var s *shape
	var needs []need
	if info.Waiting || info.Node != "" {
		if sameSpec {
			s, needs = w.shapes.hold(old.shape), old.needs
		} else {
			var m model.Shape
			m, needs = w.shapeOf(o)
			s = w.shapes.intern(m)
		}
	}
	if old != nil {
		if info.Deleting || old.Key != info.Key {
			w.expectSuccessor(old, now)
		}
		w.unlink(key, old, old.Key != info.Key, now)
	}
	if old == nil || old.Key != info.Key {
		w.succeed(info.Maker, now)
	}
	if s != nil {
		p := &pod{Pod: info, generation: o.Generation, shape: s, needs: needs, unready: unready(o)}
		w.link(key, p)
		w.noteRun(old, p, now)
	}
	if s != nil || old != nil {
		w.poke()
	}
}

func (w *World) deletePod(o *corev1.Pod, now time.Time) {
	if !w.podObjects.drop(o, now) {
		return
	}
	key := keyOf(o)
	w.noteLacking(key, "", nil)
	if old := w.pods[key]; old != nil {
		w.expectSuccessor(old, now)
		w.unlink(key, old, true, now)
		w.poke()
	}
}

// link puts a pod where it belongs: to those that wait, or on its node.
func (w *World) link(key types.NamespacedName, p *pod) {
	w.pods[key] = p
	w.storage.use(p)
	w.jobs.join(p)
	w.budgets.cover(p, w.podObjects.live[key].Labels)
	if p.Node == "" {
		i, _ := slices.BinarySearchFunc(w.pending, p, comparePods)
		w.pending = slices.Insert(w.pending, i, p)
		w.out.pending = nil
		return
	}
	at := w.places[p.Node]
	if at.pods == nil {
		at.pods = map[types.NamespacedName]*pod{}
		w.places[p.Node] = at
	}
	at.pods[key] = p
	w.machines.touchPods(p.Node)
}

// unlink takes a pod away; gone means that it left, not that it comes back in another state.
func (w *World) unlink(key types.NamespacedName, p *pod, gone bool, now time.Time) {
	delete(w.pods, key)
	w.storage.unuse(p)
	w.jobs.leave(p)
	p.uncover()
	w.shapes.release(p.shape)
	if p.Node == "" {
		if i, ok := slices.BinarySearchFunc(w.pending, p, comparePods); ok {
			w.pending = slices.Delete(w.pending, i, i+1)
		}
		w.out.pending = nil
		return
	}
	at := w.places[p.Node]
	delete(at.pods, key)
	if gone && !p.Daemon() && !p.Terminal {
		at.left = now
	}
	w.places[p.Node] = at
	if _, known := w.machines.nodes[p.Node]; !known && len(at.pods) == 0 {
		delete(w.places, p.Node)
	}
	w.machines.touchPods(p.Node)
}

// model is the engine's form of the pod.
func (p *pod) model() model.Pod {
	return model.Pod{PodKey: p.Key, Shape: p.shape.index, Priority: p.Priority, Created: p.Created}
}

// shape is a pod shape and how many pods have it.
type shape struct {
	model.Shape
	index int // in the rendered list
	pods  int
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

func newShapes() shapes { return shapes{byKey: map[string]*shape{}} }

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
