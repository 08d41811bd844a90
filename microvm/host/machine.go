package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeless/nodeless/microvm"
	"github.com/nodeless/nodeless/microvm/image"
	"github.com/nodeless/nodeless/microvm/logs"
	"github.com/nodeless/nodeless/microvm/sandbox"
	"github.com/nodeless/nodeless/microvm/wire"
)

// machine is the microVM of one pod, from the moment it is asked for until nothing is left of it.
type machine struct {
	h      *Host
	ctx    context.Context // of bringing it up; ends when it is to be stopped or removed, or the host lets go
	cancel context.CancelFunc
	gone   chan struct{} // closed when nothing is left of it

	mu       sync.Mutex
	up       chan struct{} // closed when nobody brings it up any more; a new one when somebody does again
	record   record
	pod      *corev1.Pod // as it was asked for; nil if an earlier process was asked
	vm       *sandbox.VM // nil while there is none
	route    *logs.Route // of its logs; nil if they go nowhere
	waiting  map[string]corev1.ContainerStateWaiting
	images   []*image.Image          // held for as long as something runs on them
	pushed   map[string]uint64       // hashes of the volumes that the guest has, by their names
	earlier  map[string]wire.Earlier // what became of the containers in machines before; nil: there were none
	began    time.Time               // when the machine was started
	deaths   int                     // of machines in a row, none of which lived long
	stopped  bool                    // it is not to be brought up any more
	removing bool
	samples  [2]sample // the last two, the newer one last
}

func newMachine(h *Host, r record) *machine {
	m := &machine{h: h, record: r, up: make(chan struct{}), gone: make(chan struct{}), pushed: map[string]uint64{}}
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
	if m := h.machines[spec.ID]; m != nil {
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
	r := record{ID: spec.ID, Namespace: spec.Pod.Namespace, Name: spec.Pod.Name, UID: spec.Pod.UID, Size: spec.Size, Place: place}
	if err := h.save(r); err != nil {
		h.o.Links.Release(place)
		return netip.Addr{}, fmt.Errorf("note the microVM: %w", err)
	}
	m := newMachine(h, r)
	m.pod = spec.Pod.DeepCopy()
	h.machines[spec.ID] = m
	h.openDoor(m)
	h.work.Go(m.bringUp)
	return r.address(), nil
}

var errNotResumed = errors.New("the host is being started and does not know its microVMs yet")

// machine finds one by its ID, once it is known what becomes of those of an earlier process.
func (h *Host) machine(id string) (*machine, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.state.resumed {
		return nil, errNotResumed
	}
	if m := h.machines[id]; m != nil {
		return m, nil
	}
	return nil, microvm.ErrUnknown
}

// all machines.
func (h *Host) all() []*machine {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]*machine, 0, len(h.machines))
	for _, m := range h.machines {
		out = append(out, m)
	}
	return out
}

// List implements microvm.Host.
func (h *Host) List(context.Context) ([]string, error) {
	var ids []string
	for _, m := range h.all() {
		ids = append(ids, m.record.ID)
	}
	slices.Sort(ids)
	return ids, nil
}

// Stop implements microvm.Host.
func (h *Host) Stop(_ context.Context, id string, graceSeconds int64) error {
	m, err := h.machine(id)
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

// stop ends the pod; a machine that does not answer is taken away by fargate-scheduler when the time is over.
func (m *machine) stop(vm *sandbox.VM, grace time.Duration) {
	if err := vm.Stop(m.h.ctx, grace); err != nil && m.h.ctx.Err() == nil {
		m.h.o.Log.Warn("a microVM was not stopped", "pod", m.record.Namespace+"/"+m.record.Name, "error", err)
	}
}

// Remove implements microvm.Host.
func (h *Host) Remove(ctx context.Context, id string) error {
	m, err := h.machine(id)
	if err != nil {
		return err
	}
	m.mu.Lock()
	first := !m.removing
	m.removing, m.stopped, m.record.Removing = true, true, true
	r := m.record
	m.mu.Unlock()
	if first {
		if err := h.save(r); err != nil {
			h.o.Log.Warn("a microVM that is being removed would be started again after a crash of this process", "id", id, "error", err)
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

// remove takes everything of a microVM away. It goes to its end even if the host is being closed: nothing in it waits for long.
func (m *machine) remove() {
	m.mu.Lock()
	up := m.up
	m.mu.Unlock()
	<-up
	m.mu.Lock()
	vm := m.vm
	m.mu.Unlock()
	m.endRoute()
	if vm != nil {
		vm.Remove()
	}
	m.release()
	m.h.objects.forget(m.record.Namespace, m.record.Name, m.record.UID)
	m.h.o.Links.Release(m.record.Place)
	m.h.forget(m)
	close(m.gone)
	m.h.watchers.Notify(m.record.ID)
}

// release lets the images go: nothing runs on them any more.
func (m *machine) release() {
	m.mu.Lock()
	images := m.images
	m.images = nil
	m.mu.Unlock()
	for _, i := range images {
		i.Release()
	}
}
