package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/nodeless/nodeless/internal/kit/conditions"
	"github.com/nodeless/nodeless/internal/kit/signal"
	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/image"
	"github.com/nodeless/nodeless/microvm/logs"
	"github.com/nodeless/nodeless/microvm/podspec"
	"github.com/nodeless/nodeless/microvm/sandbox"
	"github.com/nodeless/nodeless/microvm/wire"
)

// microVM is the microVM of one pod, from Start until it is removed.
type microVM struct {
	h      *Host
	ctx    context.Context // of bringUp; ends when the microVM stops or is removed, or the host is closed
	cancel context.CancelFunc
	gone   chan struct{} // closed when it is removed
	poked  signal.Signal // the pod, or what its guest needs, may have changed

	pushing atomic.Bool // volumes are being sent to the guest

	mu       sync.Mutex
	up       chan struct{} // closed when bringUp has ended; replaced when it starts again
	record   record
	pod      *corev1.Pod // as passed to Start or found by resume; nil if resume found none
	vm       *sandbox.VM // nil while there is none
	route    *logs.Route // of its logs; nil if they are not routed
	waiting  podspec.Waiting
	images   map[string]*image.Image // held while in use, by container, or by volume with the prefix imageVolume
	pulling  map[string]bool         // those that are being pulled
	pushed   map[string]uint64       // hashes of what the guest has: volumes, and with pushedContainer containers
	earlier  map[string]wire.Earlier // how containers ended in earlier virtual machines; nil before the first end
	began    time.Time               // when the virtual machine was started; zero if an earlier process did
	restarts int                     // consecutive, of short-lived virtual machines
	stopped  bool                    // it must not be brought up again
	removing bool
	// resizeError is why the last resize of the containers failed; "" if it succeeded.
	resizeError    string
	toldInfeasible string        // why a resize cannot be done, as the last event said
	samples        [2]wire.Stats // the last two measurements by the guest's clock, the newer one last
}

func newMicroVM(h *Host, r record) *microVM {
	m := &microVM{
		h: h, record: r, up: make(chan struct{}), gone: make(chan struct{}), pushed: map[string]uint64{},
		poked: signal.New(), images: map[string]*image.Image{}, pulling: map[string]bool{},
	}
	m.ctx, m.cancel = context.WithCancel(h.ctx)
	return m
}

// Start implements microvm.Host.
func (h *Host) Start(_ context.Context, spec microvm.Spec) (netip.Addr, error) {
	if d := h.Describe(); !d.Ready {
		return netip.Addr{}, errors.New(d.Message)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := h.microVMs[spec.ID]; m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.removing {
			return netip.Addr{}, fmt.Errorf("microVM %s is being removed", spec.ID)
		}
		return m.record.address(), nil
	}
	place, err := h.o.Links.Take(spec.ID)
	if err != nil {
		return netip.Addr{}, err
	}
	r := record{
		ID: spec.ID, Namespace: spec.Pod.Namespace, Name: spec.Pod.Name, UID: spec.Pod.UID, Size: spec.Size,
		Place: place,
	}
	if err := h.records.save(r); err != nil {
		h.o.Links.Release(place)
		return netip.Addr{}, fmt.Errorf("record the microVM: %w", err)
	}
	m := newMicroVM(h, r)
	m.pod = spec.Pod.DeepCopy()
	h.microVMs[spec.ID] = m
	h.serveKubelet(m)
	h.work.Go(m.bringUp)
	return r.address(), nil
}

var errNotResumed = errors.New("the host is being started and does not know its microVMs yet")

// microVM returns a microVM by its ID. It fails until the microVMs of an earlier process are known.
func (h *Host) microVM(id string) (*microVM, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.state.resumed {
		return nil, errNotResumed
	}
	if m := h.microVMs[id]; m != nil {
		return m, nil
	}
	return nil, microvm.ErrUnknown
}

// all returns all microVMs.
func (h *Host) all() []*microVM {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.microVMs))
}

// find returns a microVM for which match is true, nil if there is none.
func (h *Host) find(match func(*microVM) bool) *microVM {
	all := h.all()
	if i := slices.IndexFunc(all, match); i >= 0 {
		return all[i]
	}
	return nil
}

// ids returns the IDs of all microVMs, sorted.
func (h *Host) ids() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.microVMs))
}

// List implements microvm.Host.
func (h *Host) List(context.Context) ([]string, error) {
	return h.ids(), nil
}

// Stop implements microvm.Host.
func (h *Host) Stop(_ context.Context, id string, graceSeconds int64) error {
	m, err := h.microVM(id)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.stopped = true
	vm := m.vm
	m.mu.Unlock()
	m.cancel()
	if vm != nil {
		h.work.Go(func() { m.stop(vm, time.Duration(graceSeconds)*time.Second) })
	}
	return nil
}

// stop ends the pod. If the microVM does not answer, fargate-scheduler removes it after the grace period.
func (m *microVM) stop(vm *sandbox.VM, grace time.Duration) {
	if err := vm.Stop(m.h.ctx, grace); err != nil && m.h.ctx.Err() == nil {
		m.h.o.Log.Warn("cannot stop a microVM", "pod", m.record.Namespace+"/"+m.record.Name, "error", err)
	}
}

// Remove implements microvm.Host.
func (h *Host) Remove(ctx context.Context, id string) error {
	m, err := h.microVM(id)
	if err != nil {
		return err
	}
	m.mu.Lock()
	first := !m.removing
	m.removing, m.stopped, m.record.Removing = true, true, true
	r := m.record
	m.mu.Unlock()
	if first {
		if err := h.records.save(r); err != nil {
			h.o.Log.Warn("cannot record that a microVM is being removed; a crash of this process would start it again", "id", id,
				"error", err)
		}
		m.cancel()
		h.work.Go(m.remove)
	}
	select {
	case <-m.gone:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("remove microVM %s: %w", id, ctx.Err())
	}
}

// remove removes a microVM. It runs to completion even while the host is being closed: none of its steps takes long.
func (m *microVM) remove() {
	m.mu.Lock()
	up := m.up
	m.mu.Unlock()
	<-up
	m.endRoute((*logs.Route).End)
	if vm := m.machine(); vm != nil {
		vm.Remove()
	}
	m.release()
	m.h.objects.forget(m.record.Namespace, m.record.Name, m.record.UID)
	m.h.o.Links.Release(m.record.Place)
	m.h.forget(m)
	close(m.gone)
	m.h.watchers.Notify(m.record.ID)
}

// release releases the images. It is called once nothing uses them.
func (m *microVM) release() {
	m.mu.Lock()
	images := m.images
	m.images = map[string]*image.Image{}
	m.mu.Unlock()
	for _, i := range images {
		i.Release()
	}
}

// Status implements microvm.Host.
func (h *Host) Status(_ context.Context, id string) (microvm.Status, error) {
	m, err := h.microVM(id)
	if err != nil {
		return microvm.Status{}, err
	}
	return m.status(m.current()), nil
}

// status returns the status of the pod, which is nil if the API server no longer has it.
func (m *microVM) status(pod *corev1.Pod) microvm.Status {
	silent := unheard(m) // before it is observed: what comes meanwhile has a notification of its own
	a := m.observe(pod)
	out := microvm.Status{Ended: a.Ended}
	if pod != nil {
		out.Pod = podspec.Status(pod, a)
		if silent && !a.Ended {
			keepWritten(&out.Pod, pod)
		}
	}
	return out
}

// keepWritten replaces in a status what only the guest knows by the pod's last status.
func keepWritten(s *corev1.PodStatus, pod *corev1.Pod) {
	last := pod.Status.DeepCopy()
	s.Phase, s.Reason, s.Message, s.ObservedGeneration = last.Phase, last.Reason, last.Message, last.ObservedGeneration
	s.InitContainerStatuses, s.ContainerStatuses = last.InitContainerStatuses, last.ContainerStatuses
	s.EphemeralContainerStatuses = last.EphemeralContainerStatuses
	for i := range s.Conditions {
		if c := conditions.OfPod(pod, s.Conditions[i].Type); c != nil {
			s.Conditions[i] = *c
		}
	}
}

// unheard reports whether the guest, which an earlier process started, has not reported its containers to this one yet.
func unheard(m *microVM) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.vm == nil || !m.began.IsZero() {
		return false
	}
	s, _ := m.vm.Status()
	return s.Phase != sandbox.Ended && len(s.Pod.Containers) == 0
}

// Watch implements microvm.Host.
func (h *Host) Watch(ctx context.Context, changed func(id string)) {
	h.watchers.Watch(ctx, changed, h.ids)
}

// forget drops a microVM that has been removed.
func (h *Host) forget(m *microVM) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.microVMs, m.record.ID)
	h.signer.Forget(h.node(m.record))
	h.records.remove(m.record.ID)
}

// machine returns the virtual machine, nil if there is none.
func (m *microVM) machine() *sandbox.VM {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.vm
}

// running returns the virtual machine and its status, or nil if its guest is not running.
func (m *microVM) running() (*sandbox.VM, sandbox.Status) {
	if vm := m.machine(); vm != nil {
		if s, _ := vm.Status(); s.Phase == sandbox.Running {
			return vm, s
		}
	}
	return nil, sandbox.Status{}
}

// fieldPaths are the field paths of a pod's containers in event references, by container type.
var fieldPaths = map[podutil.ContainerType]string{
	podutil.InitContainers: "spec.initContainers", podutil.Containers: "spec.containers",
	podutil.EphemeralContainers: "spec.ephemeralContainers",
}

func eventType(warning bool) string {
	if warning {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}

// event records an event of a pod, or of one of its containers.
func (h *Host) event(pod *corev1.Pod, container, kind, reason, message string) {
	about := &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		ResourceVersion: pod.ResourceVersion,
	}
	for c, kind := range podutil.ContainerIter(&pod.Spec, podutil.AllContainers) {
		if c.Name == container {
			about.FieldPath = fieldPaths[kind] + "{" + c.Name + "}"
		}
	}
	h.o.Recorder.Event(about, kind, reason, message)
}
