package host

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/microvm/fargate"
	"github.com/nodeless/nodeless/microvm/podspec"
	"github.com/nodeless/nodeless/microvm/sandbox"
	"github.com/nodeless/nodeless/microvm/wire"
)

// podChanged is called for each change of a pod that may run here.
func (h *Host) podChanged(was, is *corev1.Pod) {
	if !maps.Equal(was.Labels, is.Labels) || !maps.Equal(was.Annotations, is.Annotations) {
		h.changed.Set()
	}
	if was.Generation == is.Generation && slices.Equal(podspec.ClosedGates(was), podspec.ClosedGates(is)) {
		return
	}
	if m := h.find(func(m *microVM) bool { return m.record.UID == is.UID }); m != nil {
		m.poked.Set()
		h.watchers.Notify(m.record.ID)
	}
}

// followChanges applies changes of a pod, and of what it refers to, to its running guest: changed resources, and new,
// held and changed containers.
func (m *microVM) followChanges(vm *sandbox.VM) {
	ctx, cancel := context.WithCancel(m.ctx)
	defer cancel()
	go func() {
		defer cancel()
		select {
		case <-vm.Ended():
		case <-ctx.Done():
		}
	}()
	for {
		pause := time.Hour // nothing is left to do until the pod changes
		if pod := m.current(); pod != nil && pod.DeletionTimestamp == nil {
			if !m.resize(ctx, vm, pod) {
				pause = m.h.o.Pauses.Measure
			}
			if !supply(ctx, m, vm, m.feasible(pod)) {
				pause = m.h.o.Pauses.Config
			}
		}
		if clock.SleepOr(ctx, clock.Real{}, pause, m.poked) != nil {
			return
		}
	}
}

// resize applies the pod's current resources to its containers. It returns false if it must be tried again.
func (m *microVM) resize(ctx context.Context, vm *sandbox.VM, pod *corev1.Pod) bool {
	m.mu.Lock()
	given, failed := maps.Clone(m.record.Resources), m.resizeError
	m.mu.Unlock()
	resized := podspec.Resized(pod, given)
	why := ""
	if len(resized) > 0 {
		why = m.infeasible(pod)
	}
	var err error
	if why == "" {
		for _, c := range resized {
			if err = m.resizeOne(ctx, vm, pod, c, given[c.Name]); err != nil {
				break
			}
		}
	}
	message := ""
	if err != nil {
		message = err.Error()
	}
	m.mu.Lock()
	told := m.toldInfeasible
	m.resizeError, m.toldInfeasible = message, why
	m.mu.Unlock()
	switch {
	case why != "" && why != told:
		m.h.event(pod, "", corev1.EventTypeWarning, "ResizeInfeasible", why)
	case err != nil && failed == "" && ctx.Err() == nil:
		m.h.event(pod, "", corev1.EventTypeWarning, "ResizeError", message)
	case err == nil && len(resized) > 0:
		m.h.event(pod, "", corev1.EventTypeNormal, "ResizeCompleted", "Pod resize completed")
	}
	if len(resized) > 0 && why == "" || message != failed || why != told {
		m.h.watchers.Notify(m.record.ID)
	}
	return err == nil
}

// resizeOne applies the new resources of one container.
func (m *microVM) resizeOne(ctx context.Context, vm *sandbox.VM, pod *corev1.Pod, c *corev1.Container,
	given corev1.ResourceRequirements,
) error {
	ctx, cancel := context.WithTimeout(ctx, pushLimit)
	defer cancel()
	if err := vm.Resize(ctx, wire.Resize{
		Container: c.Name, Limits: podspec.Limits(pod, c, m.record.Size.MemoryBytes), Restart: restartsFor(c, given),
	}); err != nil {
		return err
	}
	m.mu.Lock()
	m.record.Resources = cloned(m.record.Resources)
	m.record.Resources[c.Name] = c.Resources
	r := m.record
	m.mu.Unlock()
	return m.h.records.save(r)
}

// cloned returns a writable copy of a map that others may be reading.
func cloned[V any](m map[string]V) map[string]V {
	out := make(map[string]V, len(m)+1)
	maps.Copy(out, m)
	return out
}

// restartsFor reports whether a container's resizePolicy requires a restart to apply its new resources.
func restartsFor(c *corev1.Container, given corev1.ResourceRequirements) bool {
	return slices.ContainsFunc(c.ResizePolicy, func(p corev1.ContainerResizePolicy) bool {
		differ := func(now, before corev1.ResourceList) bool {
			a, b := now[p.ResourceName], before[p.ResourceName]
			return a.Cmp(b) != 0
		}
		return p.RestartPolicy == corev1.RestartContainer &&
			(differ(c.Resources.Requests, given.Requests) || differ(c.Resources.Limits, given.Limits))
	})
}

// infeasible returns why the microVM cannot provide what the pod's containers request now, or "" if it can: a microVM
// keeps the size it was started with, in whole CPUs. The wording is the kubelet's.
func (m *microVM) infeasible(pod *corev1.Pod) string {
	want, size := fargate.Requests(pod), m.record.Size
	for _, r := range []struct {
		name      corev1.ResourceName
		asks, has int64
	}{
		{corev1.ResourceCPU, want.MilliCPU, size.WholeCPUs() * 1000},
		{corev1.ResourceMemory, want.MemoryBytes, size.MemoryBytes},
	} {
		if r.asks > r.has {
			return fmt.Sprintf("Node didn't have enough capacity: %s, requested: %d, capacity: %d", r.name, r.asks, r.has)
		}
	}
	return ""
}

// resourcesOf returns the resources of a pod's containers, by container.
func resourcesOf(pod *corev1.Pod) map[string]corev1.ResourceRequirements {
	out := map[string]corev1.ResourceRequirements{}
	for c := range containers(pod) {
		out[c.Name] = c.Resources
	}
	return out
}

// feasible returns the pod with resources that a new virtual machine of the same size can provide. If the pod
// requests more than that, its containers get the resources they had.
func (m *microVM) feasible(pod *corev1.Pod) *corev1.Pod {
	m.mu.Lock()
	given := m.record.Resources
	m.mu.Unlock()
	if resized := podspec.Resized(pod, given); len(resized) == 0 || m.infeasible(pod) == "" {
		return pod
	}
	pod = pod.DeepCopy()
	for c := range containers(pod) {
		if has, ok := given[c.Name]; ok {
			c.Resources = has
		}
	}
	return pod
}
