package cluster

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/engine/model"
)

// virtual is the room that one owner wants to be kept free: pods of one shape that nobody created.
type virtual struct {
	shape *shape
	pods  []model.Pod // but for the index of the shape
}

// SetVirtual puts so many placeholders like the template into the next snapshots, in place of those that the owner had; 0
// takes them away. Their names and UIDs are the template's with a number behind, their time of creation is the template's.
func (w *World) SetVirtual(owner types.NamespacedName, template *corev1.Pod, count int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	old := w.virtual[owner]
	if count <= 0 {
		if old != nil {
			w.dropVirtual(owner, old)
		}
		return
	}
	m, _ := w.shapeOf(template)
	s := w.shapes.intern(m)
	v := &virtual{shape: s, pods: placeholders(template, count)}
	if old != nil {
		if old.shape == s && slices.Equal(old.pods, v.pods) {
			w.shapes.release(s)
			return
		}
		w.dropVirtual(owner, old)
	}
	if w.virtual == nil {
		w.virtual = map[types.NamespacedName]*virtual{}
	}
	w.virtual[owner] = v
	w.out.pending = nil
	w.poke()
}

func (w *World) dropVirtual(owner types.NamespacedName, v *virtual) {
	w.shapes.release(v.shape)
	delete(w.virtual, owner)
	w.out.pending = nil
	w.poke()
}

func placeholders(template *corev1.Pod, count int) []model.Pod {
	out := make([]model.Pod, count)
	for i := range out {
		out[i] = model.Pod{
			PodKey: model.PodKey{
				Namespace: template.Namespace, Name: fmt.Sprintf("%s-%d", template.Name, i+1), UID: fmt.Sprintf("%s-%d", template.UID, i+1),
			},
			Created: template.CreationTimestamp.Time, Virtual: true,
		}
		if template.Spec.Priority != nil {
			out[i].Priority = *template.Spec.Priority
		}
	}
	return out
}

// addVirtual puts the placeholders among the pods that wait, in the order of Snapshot.Pending.
func (w *World) addVirtual(pending []model.Pod) []model.Pod {
	if len(w.virtual) == 0 {
		return pending
	}
	for _, v := range w.virtual {
		for _, p := range v.pods {
			p.Shape = v.shape.index
			pending = append(pending, p)
		}
	}
	slices.SortFunc(pending, func(a, b model.Pod) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return pending
}
