package host

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/microvm/podspec"
	"github.com/nodeless/nodeless/microvm/sandbox"
	"github.com/nodeless/nodeless/microvm/wire"
)

// refresh updates the volumes of running guests, and the variables of their containers' next runs, when their sources
// change: ConfigMaps, Secrets, Services, the pod's labels and annotations, and tokens that are renewed.
func (h *Host) refresh(ctx context.Context) {
	for clock.SleepOr(ctx, clock.Real{}, h.o.Pauses.Refresh, h.changed) == nil {
		for _, m := range h.all() {
			pod := h.podOf(m.record.UID)
			if pod == nil || pod.DeletionTimestamp != nil {
				continue
			}
			if hasFiles(pod) {
				m.updateVolumes(ctx, pod)
			}
			m.poked.Set()
		}
	}
}

// hasFiles reports whether a pod has volumes whose content may change.
func hasFiles(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.EmptyDir == nil })
}

// pushLimit is how long a guest may take to write its files.
const pushLimit = 10 * time.Second

// updateVolumes sends the guest of a running pod the volumes that have changed, in the background: a guest that takes
// none delays no other. A volume that cannot be read now stays unchanged.
func (m *microVM) updateVolumes(ctx context.Context, pod *corev1.Pod) {
	vm, s := m.running()
	if vm == nil || s.Pod.Done || !m.pushing.CompareAndSwap(false, true) {
		return
	}
	volumes, err := podspec.Volumes(ctx, pod, m.specOptions(pod, nil))
	if err != nil {
		m.h.o.Log.Debug("cannot read some volumes of a running pod; keeping their files", "pod",
			pod.Namespace+"/"+pod.Name, "error", err)
	}
	m.h.work.Go(func() {
		defer m.pushing.Store(false)
		pushVolumes(ctx, m, vm, pod, volumes)
	})
}

// pushVolumes sends a guest those volumes that have changed.
func pushVolumes(ctx context.Context, m *microVM, vm *sandbox.VM, pod *corev1.Pod, volumes []wire.Volume) {
	for _, v := range volumes {
		content := contentOf(v)
		m.mu.Lock()
		had, known := m.pushed[v.Name]
		m.mu.Unlock()
		if !v.Projected || known && had == content {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, pushLimit)
		err := vm.UpdateFiles(limited, v)
		cancel()
		if err != nil {
			m.h.o.Log.Warn("cannot update the files of a guest; retrying", "pod", pod.Namespace+"/"+pod.Name, "volume",
				v.Name, "error", err)
			continue
		}
		m.mu.Lock()
		m.pushed[v.Name] = content
		m.mu.Unlock()
	}
}

// contentOf returns a hash of the files of a volume.
func contentOf(v wire.Volume) uint64 { return hashOf(v.Files) }

// pushedContainer is the prefix of containers in microVM.pushed.
const pushedContainer = "container/"

// suppliedOf returns a hash of what Supply replaces of a container.
func suppliedOf(c wire.Container) uint64 {
	c.Limits, c.Earlier = wire.Limits{}, nil
	return hashOf(c)
}

func hashOf(v any) uint64 {
	sum := fnv.New64a()
	_ = json.NewEncoder(sum).Encode(v) // neither the encoding nor a hash can fail
	return sum.Sum64()
}
