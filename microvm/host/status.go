package host

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/podspec"
)

// Status implements microvm.Host.
func (h *Host) Status(_ context.Context, id string) (microvm.Status, error) {
	m, err := h.machine(id)
	if err != nil {
		return microvm.Status{}, err
	}
	return m.status(m.current()), nil
}

// status is what has become of the pod, which is nil if nobody knows it any more.
func (m *machine) status(pod *corev1.Pod) microvm.Status {
	a := m.account(pod)
	out := microvm.Status{Ended: a.Ended}
	if pod != nil {
		out.Pod = podspec.Status(pod, a)
	}
	return out
}

// Watch implements microvm.Host.
func (h *Host) Watch(ctx context.Context, changed func(id string)) {
	h.watchers.Watch(ctx, changed, func() (ids []string) {
		for _, m := range h.all() {
			ids = append(ids, m.record.ID)
		}
		return ids
	})
}

// forget takes a microVM of which nothing is left off the list.
func (h *Host) forget(m *machine) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.machines, m.record.ID)
	h.signer.Forget(h.node(m.record))
	removeFile(h.recordFile(m.record.ID))
}

// event records what happened to a pod, or to a container of it.
func (h *Host) event(pod *corev1.Pod, container, kind, reason, message string) {
	about := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion}
	eachContainer(pod, func(c *corev1.Container, path string) bool {
		if c.Name == container {
			about.FieldPath = path
		}
		return true
	})
	h.o.Recorder.Event(about, kind, reason, message)
}
