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

// placeholders are the virtual pods of all owners.
type placeholders struct {
	*hub
	pods    *pods
	byOwner map[types.NamespacedName]*virtual
}

// SetVirtual puts so many placeholders like the template into the next snapshots, in place of those that the owner
// had; 0 takes them away. Their names and UIDs are the template's with a number behind, their time of creation is the
// template's.
func (ph *placeholders) SetVirtual(owner types.NamespacedName, template *corev1.Pod, count int) {
	ph.mu.Lock()
	defer ph.mu.Unlock()
	old := ph.byOwner[owner]
	if count <= 0 {
		if old != nil {
			ph.dropVirtual(owner, old)
		}
		return
	}
	m, _ := ph.pods.storage.shapeOf(template)
	s := ph.pods.shapes.intern(m)
	v := &virtual{shape: s, pods: virtualPods(template, count)}
	if old != nil {
		if old.shape == s && slices.Equal(old.pods, v.pods) {
			ph.pods.shapes.release(s)
			return
		}
		ph.dropVirtual(owner, old)
	}
	ph.byOwner[owner] = v
	ph.stalePending = true
	ph.poke()
}

func (ph *placeholders) dropVirtual(owner types.NamespacedName, v *virtual) {
	ph.pods.shapes.release(v.shape)
	delete(ph.byOwner, owner)
	ph.stalePending = true
	ph.poke()
}

func virtualPods(template *corev1.Pod, count int) []model.Pod {
	out := make([]model.Pod, count)
	for i := range out {
		out[i] = model.Pod{
			PodKey: model.PodKey{
				Namespace: template.Namespace, Name: fmt.Sprintf("%s-%d", template.Name, i+1),
				UID: fmt.Sprintf("%s-%d", template.UID, i+1),
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
func (ph *placeholders) addVirtual(pending []model.Pod) []model.Pod {
	if len(ph.byOwner) == 0 {
		return pending
	}
	for _, v := range ph.byOwner {
		for _, p := range v.pods {
			p.Shape = v.shape.index
			pending = append(pending, p)
		}
	}
	slices.SortFunc(pending, func(a, b model.Pod) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.UID, b.UID))
	})
	return pending
}
