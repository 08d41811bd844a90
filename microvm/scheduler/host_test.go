package scheduler_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/fargate"
)

// memoryHost is a host whose microVMs are only recorded: their containers run from the moment they are started until
// they are stopped.
type memoryHost struct {
	mu      sync.Mutex
	d       microvm.Description
	vms     map[string]*memoryVM
	next    netip.Addr
	changed func(string)
	broken  error // the error of Start
	starts  int
}

type memoryVM struct {
	spec   microvm.Spec
	ip     netip.Addr
	phase  corev1.PodPhase
	stuck  bool // does not end when it is stopped
	grace  int64
	exited metav1.Time
}

func newHost(name, address string) *memoryHost {
	able := fargate.DefaultAbilities()
	able.Volumes = append(able.Volumes, fargate.EFS)
	return &memoryHost{vms: map[string]*memoryVM{}, next: netip.MustParseAddr(address), d: microvm.Description{
		Name: name, Region: "eu-west-1", Zone: "eu-west-1a", Arch: "amd64", Engine: "TCG",
		Capacity: fargate.Size{MilliCPU: 4000, MemoryBytes: 8 << 30}, MaxPods: 100,
		Abilities: able, Version: "v1.36.2", Kernel: "6.1.0", Ready: true,
	}}
}

func (h *memoryHost) Describe() microvm.Description {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.d
}

func (h *memoryHost) change(f func()) {
	h.mu.Lock()
	f()
	changed := h.changed
	h.mu.Unlock()
	if changed != nil {
		changed("")
	}
}

func (h *memoryHost) Start(_ context.Context, spec microvm.Spec) (netip.Addr, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if vm := h.vms[spec.ID]; vm != nil {
		return vm.ip, nil
	}
	h.starts++
	if h.broken != nil {
		return netip.Addr{}, h.broken
	}
	if !h.d.Ready {
		return netip.Addr{}, errors.New("not ready")
	}
	vm := &memoryVM{spec: spec, ip: h.next, phase: corev1.PodRunning}
	h.vms[spec.ID], h.next = vm, h.next.Next()
	return vm.ip, nil
}

func (h *memoryHost) Status(_ context.Context, id string) (microvm.Status, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	vm := h.vms[id]
	if vm == nil {
		return microvm.Status{}, microvm.ErrUnknown
	}
	running := vm.phase == corev1.PodRunning
	s := microvm.Status{Ended: !running, Pod: corev1.PodStatus{Phase: vm.phase}}
	ready := corev1.ConditionFalse
	if running {
		ready = corev1.ConditionTrue
	}
	for _, t := range []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		s.Pod.Conditions = append(s.Pod.Conditions, corev1.PodCondition{Type: t, Status: ready})
	}
	for _, c := range vm.spec.Pod.Spec.Containers {
		state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: vm.spec.Pod.CreationTimestamp}}
		if !running {
			state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				Reason:     "Completed",
				FinishedAt: vm.exited,
			}}
		}
		s.Pod.ContainerStatuses = append(s.Pod.ContainerStatuses,
			corev1.ContainerStatus{
				Name: c.Name, Image: c.Image, ImageID: "memory", Ready: running, Started: &running,
				State: state,
			})
	}
	return s, nil
}

func (h *memoryHost) Stop(_ context.Context, id string, grace int64) error {
	h.mu.Lock()
	vm := h.vms[id]
	if vm != nil {
		vm.grace = grace
	}
	h.mu.Unlock()
	if vm == nil {
		return microvm.ErrUnknown
	}
	if !vm.stuck {
		h.exit(id, corev1.PodSucceeded)
	}
	return nil
}

// exit ends the containers of a microVM.
func (h *memoryHost) exit(id string, phase corev1.PodPhase) {
	h.mu.Lock()
	h.vms[id].phase, h.vms[id].exited = phase, metav1.Now()
	changed := h.changed
	h.mu.Unlock()
	if changed != nil {
		changed(id)
	}
}

func (h *memoryHost) Remove(_ context.Context, id string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.vms[id] == nil {
		return microvm.ErrUnknown
	}
	delete(h.vms, id)
	return nil
}

func (h *memoryHost) List(context.Context) ([]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var ids []string
	for id := range h.vms {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids, nil
}

func (h *memoryHost) Watch(ctx context.Context, changed func(string)) {
	h.mu.Lock()
	h.changed = changed
	h.mu.Unlock()
	<-ctx.Done()
}
