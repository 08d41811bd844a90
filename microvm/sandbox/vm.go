package sandbox

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nodeless/nodeless/microvm/vmm"
	"github.com/nodeless/nodeless/microvm/wire"
)

// Phase is a VM's phase.
type Phase string

// Phases of a VM.
const (
	Starting Phase = "Starting" // the guest boots or prepares the pod
	Running  Phase = "Running"  // the agent has reported the pod's status
	Ended    Phase = "Ended"    // the VM's process has ended
)

// Status is what the host knows about a VM.
type Status struct {
	Phase Phase
	Pod   wire.PodStatus
	// Failure says why the VM ended unexpectedly, or why the pod could not be run.
	Failure string
	// Address of the pod, without a prefix length.
	Address string
}

// VM is a pod in its virtual machine, or in its namespaces. Its parts are embedded: Guest talks to the guest's agent,
// Logs stores the containers' logs.
type VM struct {
	Guest
	*Logs
	host    *Host
	dir     string
	process *vmm.Process // nil if it ended before this host process adopted the VM
	pending *wire.Pod    // pod to hand to the guest; nil afterwards
	lost    bool
	adding  sync.Mutex // serialises Add and Supply

	mu       sync.Mutex
	record   vmRecord
	status   Status
	events   []wire.Event
	changed  chan struct{}
	stopping bool
}

func newVM(h *Host, dir string, r vmRecord) *VM {
	return &VM{
		Guest: newGuest(r.ID), Logs: newLogs(dir, r.Containers), host: h, dir: dir, record: r,
		status: Status{Phase: Starting}, changed: make(chan struct{}),
	}
}

// ID returns the ID of the VM's Workload.
func (vm *VM) ID() string { return vm.record.ID }

// Lost reports whether the VM ended while no host process was running, as in a reboot of the host, so that its
// outcome is unknown.
func (vm *VM) Lost() bool { return vm.lost }

// Status returns the VM's status and a channel that is closed when it changes.
func (vm *VM) Status() (Status, <-chan struct{}) {
	vm.mu.Lock()
	defer vm.mu.Unlock()
	s := vm.status
	s.Address = addressOf(vm.record.Network)
	return s, vm.changed
}

// TakeEvents returns the containers' events since the last call.
func (vm *VM) TakeEvents() []wire.Event {
	vm.mu.Lock()
	defer vm.mu.Unlock()
	e := vm.events
	vm.events = nil
	return e
}

// Stats returns the resource usage of the guest and its containers.
func (vm *VM) Stats(ctx context.Context) (s wire.Stats, err error) {
	err = vm.call(ctx, wire.KindStats, nil, &s)
	s.Restrict(vm.Containers())
	return s, err
}

// Ended returns a channel that is closed when the VM has ended.
func (vm *VM) Ended() <-chan struct{} { return vm.ended }

// update changes the status and notifies the waiters.
func (vm *VM) update(change func()) {
	vm.mu.Lock()
	defer vm.mu.Unlock()
	change()
	close(vm.changed)
	vm.changed = make(chan struct{})
}

// exitLimit is how long the process of a VM whose session failed may take to exit on its own; the failure is then
// attributed to the exit, not to the session.
const exitLimit = time.Second

// supervise keeps a session with the guest until the VM ends or the host is closed.
func (vm *VM) supervise() {
	if vm.process == nil {
		vm.end("the VM ended while no host process ran")
		return
	}
	var failure error
	for failure == nil && vm.host.ctx.Err() == nil {
		failure = vm.serveSession(vm.host.ctx)
	}
	if vm.host.ctx.Err() != nil {
		return // the VM continues without this process
	}
	select {
	case <-vm.process.Done():
		failure = fmt.Errorf("the virtual machine ended: %s", vm.process.LastWords())
	case <-time.After(exitLimit):
		vm.process.Kill() // hung, hostile or unusable
	}
	vm.end(failure.Error())
}

// end records the end of the VM. It reports containers that were running as a kubelet reports containers whose
// outcome it cannot know.
func (vm *VM) end(failure string) {
	failure = wire.CutMessage(failure)
	vm.update(func() {
		if isClosed(vm.ended) {
			return
		}
		defer close(vm.ended)
		if vm.record.Ended != nil {
			vm.status = *vm.record.Ended
			return
		}
		vm.status.Phase = Ended
		if !vm.status.Pod.Done && !vm.stopping {
			vm.status.Failure = failure
		}
		vm.pending = nil
		for i := range vm.status.Pod.Containers {
			c := &vm.status.Pod.Containers[i]
			neverRuns := vm.status.Pod.Done && c.State == wire.Waiting && c.LastExit == nil // as the guest reported
			if c.State == wire.Terminated || neverRuns {
				continue
			}
			c.State, c.Reason, c.Message, c.Ready = wire.Terminated, "", "", false
			c.Exit = &wire.Exit{
				Code: 137, Reason: "ContainerStatusUnknown", Message: failure, Started: c.Started, Finished: time.Now(),
			}
		}
		ended := vm.status
		vm.record.Ended = &ended
		if !vm.host.config.sweeping {
			_ = vm.record.save(vm.dir) // at worst, a later process records the end again
		}
	})
}

// Stop ends the pod within the grace period (negative: the pod's own), and then ends the VM. The VM keeps its status
// and logs until it is removed. If ctx ends first, Stop leaves the VM running, and its pod continues to terminate.
func (vm *VM) Stop(ctx context.Context, grace time.Duration) error {
	if grace < 0 {
		grace = vm.record.Grace
	}
	vm.mu.Lock()
	vm.stopping = true
	started := vm.record.Started // if not, there are no containers to end
	vm.mu.Unlock()
	if vm.process == nil {
		return nil
	}
	conn := vm.current()
	if conn == nil && started && grace > 0 {
		reaching, cancel := context.WithTimeout(ctx, vm.host.config.HangLimit) // adopted a moment ago
		conn, _ = vm.connected(reaching)
		cancel()
	}
	if conn != nil {
		stopping, cancel := context.WithTimeout(ctx, grace+vm.host.config.HangLimit)
		defer cancel()
		vm.stopPod(stopping, conn, grace)
	}
	if ctx.Err() == nil {
		vm.process.Kill()
	}
	select {
	case <-vm.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stopPod tells the guest to end its pod, and waits until the session has received the last status, which ends the VM
// (session.finish).
func (vm *VM) stopPod(ctx context.Context, conn *wire.Conn, grace time.Duration) {
	if err := conn.Call(ctx, wire.KindStop, wire.Stop{Grace: grace}, nil); err != nil {
		return
	}
	select {
	case <-vm.process.Done():
	case <-ctx.Done():
	}
}

// Remove ends the VM if it is still running, and removes all traces of it.
func (vm *VM) Remove() {
	if vm.process != nil {
		vm.process.Kill()
	}
	select { // end writes to the directory, even if the VM ended earlier
	case <-vm.ended:
	case <-vm.host.ctx.Done():
	}
	vm.host.forget(vm)
}
