package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeless/nodeless/engine/model"
)

// virtual is the capacity that one owner wants to keep free: pods of one shape that do not exist.
type virtual struct {
	shape *shape
	pods  []model.Pod          // without the index of the shape
	job   types.NamespacedName // the Job whose pods use the capacity; zero if none do
	came  int                  // how many pods of the Job have been created
	last  time.Time            // when the last of them was created
	yield int                  // how many pods of the Job the last snapshot expects; they use the capacity, too
}

// placeholders are the virtual pods of all owners.
type placeholders struct {
	*hub
	pods    *pods
	byOwner map[types.NamespacedName]*virtual
	awaited map[types.NamespacedName]*virtual // by Job
}

func newPlaceholders(h *hub, ps *pods) *placeholders {
	ps.placeholders = &placeholders{
		hub: h, pods: ps, byOwner: map[types.NamespacedName]*virtual{}, awaited: map[types.NamespacedName]*virtual{},
	}
	return ps.placeholders
}

// SetVirtual puts count placeholders like the template into the next snapshots, in place of the owner's previous
// ones; 0 removes them. Their names and UIDs are the template's with a number appended, their creation time is the
// template's.
func (ph *placeholders) SetVirtual(owner types.NamespacedName, template *corev1.Pod, count int) {
	ph.mu.Lock()
	defer ph.mu.Unlock()
	ph.set(owner, template, max(count, 0), types.NamespacedName{})
}

// Await is SetVirtual for the pods of a Job that is yet to be created. Each pod of the Job replaces one placeholder,
// which disappears in the very snapshot in which the pod appears. The pods are counted, see Came, until the owner
// awaits another Job, even if count is 0.
func (ph *placeholders) Await(owner types.NamespacedName, template *corev1.Pod, count int, job types.NamespacedName) {
	ph.mu.Lock()
	defer ph.mu.Unlock()
	ph.set(owner, template, max(count, 0), job)
}

// Came returns how many pods of the Job that the owner awaits have been created, and when the last one was.
func (ph *placeholders) Came(owner types.NamespacedName) (int, time.Time) {
	ph.mu.Lock()
	defer ph.mu.Unlock()
	if v := ph.byOwner[owner]; v != nil {
		return v.came, v.last
	}
	return 0, time.Time{}
}

// Awaited returns the Jobs whose pods are awaited or counted.
func (ph *placeholders) Awaited() map[types.NamespacedName]bool {
	ph.mu.Lock()
	defer ph.mu.Unlock()
	if len(ph.awaited) == 0 {
		return nil
	}
	out := make(map[types.NamespacedName]bool, len(ph.awaited))
	for job := range ph.awaited {
		out[job] = true
	}
	return out
}

func (ph *placeholders) set(owner types.NamespacedName, template *corev1.Pod, count int, job types.NamespacedName) {
	old, nobody := ph.byOwner[owner], types.NamespacedName{}
	if template == nil || count == 0 && job == nobody {
		if old != nil {
			ph.dropVirtual(owner, old)
		}
		return
	}
	m, _ := ph.pods.storage.shapeOf(template)
	v := &virtual{shape: ph.pods.shapes.intern(m), pods: virtualPods(template, count), job: job}
	switch {
	case old != nil && old.shape == v.shape && old.job == job && slices.Equal(old.pods, v.pods):
		ph.pods.shapes.release(v.shape)
		return
	case old != nil && old.job == job:
		v.came, v.last = old.came, old.last
	case job != nobody:
		ph.count(v)
	}
	if old != nil {
		ph.dropVirtual(owner, old)
	}
	ph.byOwner[owner] = v
	if job != nobody {
		ph.awaited[job] = v
	}
	ph.stalePending = true
	ph.poke()
}

// count counts the existing pods of the Job.
func (ph *placeholders) count(v *virtual) {
	for _, p := range ph.pods.objects.pods.live {
		if creatorOf(p) == v.job {
			v.add(p)
		}
	}
}

// add counts a pod of the Job.
func (v *virtual) add(p *corev1.Pod) {
	v.came++
	if p.CreationTimestamp.After(v.last) {
		v.last = p.CreationTimestamp.Time
	}
}

// arrived records a pod. before is the previous pod of that name, nil if there was none.
func (ph *placeholders) arrived(before, p *corev1.Pod) {
	if len(ph.awaited) == 0 || before != nil && before.UID == p.UID {
		return
	}
	if v := ph.awaited[creatorOf(p)]; v != nil {
		v.add(p)
		ph.stalePending = true
	}
}

// creatorOf returns the Job that has created a pod, zero if none has.
func creatorOf(p *corev1.Pod) types.NamespacedName {
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil && owner.Kind == "Job" {
		return types.NamespacedName{Namespace: p.Namespace, Name: owner.Name}
	}
	return types.NamespacedName{}
}

func (ph *placeholders) dropVirtual(owner types.NamespacedName, v *virtual) {
	ph.pods.shapes.release(v.shape)
	delete(ph.byOwner, owner)
	delete(ph.awaited, v.job)
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

// yieldToExpected removes as many placeholders of a Job as pods are expected of it.
func (ph *placeholders) yieldToExpected() {
	for job, v := range ph.awaited {
		if n := ph.pods.owners.expects(job); len(v.pods) > 0 && n != v.yield {
			v.yield, ph.stalePending = n, true
		}
	}
}

// PlaceholderOwner returns the name of the template from which a placeholder was made.
func PlaceholderOwner(p model.PodKey) types.NamespacedName {
	return types.NamespacedName{Namespace: p.Namespace, Name: p.Name[:max(strings.LastIndexByte(p.Name, '-'), 0)]}
}

// addVirtual inserts the placeholders among the waiting pods, in the order of Snapshot.Pending.
func (ph *placeholders) addVirtual(pending []model.Pod) []model.Pod {
	if len(ph.byOwner) == 0 {
		return pending
	}
	for _, v := range ph.byOwner {
		for _, p := range v.pods[min(v.came+v.yield, len(v.pods)):] {
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

// Instead returns a snapshot of the current cluster in which count placeholders like the template replace all waiting
// pods. The order of Shapes is unspecified.
func (s *State) Instead(template *corev1.Pod, count int) *model.Snapshot {
	s.mu.Lock()
	m, _ := s.storage.shapeOf(template)
	s.mu.Unlock()
	out := s.Snapshot()
	at := slices.IndexFunc(out.Shapes, func(x model.Shape) bool { return x.Key == m.Key })
	if at < 0 {
		at, out.Shapes = len(out.Shapes), append(slices.Clip(out.Shapes), m)
	}
	out.Pending, out.Expected = virtualPods(template, max(count, 0)), nil
	for i := range out.Pending {
		out.Pending[i].Shape = at
	}
	return out
}
