package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nodeless/nodeless/microvm/vmm"
	"github.com/nodeless/nodeless/microvm/wire"
)

// Phase of a VM.
type Phase string

// Phases of a VM.
const (
	Starting Phase = "Starting" // the guest boots or prepares
	Running  Phase = "Running"  // its agent has told of the pod
	Ended    Phase = "Ended"    // the machine is gone
)

// Status is what the host knows of a VM.
type Status struct {
	Phase Phase
	Pod   wire.PodStatus
	// Failure says why the machine ended without having been told to, or why the pod could not be run.
	Failure string
	// Address of the pod, without prefix length; "" without a network of its own.
	Address string
}

// VM is a pod in its machine.
type VM struct {
	host    *Host
	dir     string
	machine *vmm.Machine // nil when it had ended before this process took the VM up
	logs    *logFiles
	pending *wire.Pod // to be handed to the guest; nil once it was
	lost    bool      // the machine ended while no host process ran

	mu       sync.Mutex
	record   vmRecord
	status   Status
	events   []wire.Event
	conn     *wire.Conn // nil while there is no session
	changed  chan struct{}
	stopping bool
	ended    chan struct{}
}

func newVM(h *Host, dir string, r vmRecord) *VM {
	vm := &VM{
		host: h, dir: dir, record: r, logs: newLogFiles(dir, r.Containers), changed: make(chan struct{}),
		ended: make(chan struct{}),
	}
	vm.status.Phase = Starting
	return vm
}

// ID of the VM.
func (vm *VM) ID() string { return vm.record.ID }

// FromTemplate reports whether the guest was restored from a template.
func (vm *VM) FromTemplate() bool { return vm.record.FromTemplate }

// Lost reports whether the machine ended while no host process ran, such as by a restart of the whole host: nobody
// can say how.
func (vm *VM) Lost() bool { return vm.lost }

// Status of the VM, and a channel that is closed when it changes.
func (vm *VM) Status() (Status, <-chan struct{}) {
	vm.mu.Lock()
	defer vm.mu.Unlock()
	s := vm.status
	s.Address = addressOf(vm.record.Network)
	return s, vm.changed
}

// TakeEvents are the containers' events since the last call.
func (vm *VM) TakeEvents() []wire.Event {
	vm.mu.Lock()
	defer vm.mu.Unlock()
	e := vm.events
	vm.events = nil
	return e
}

const maxEvents = 256 // not taken; older ones go

// Ended is closed when the machine is gone.
func (vm *VM) Ended() <-chan struct{} { return vm.ended }

// over reports whether it is.
func (vm *VM) over() bool {
	select {
	case <-vm.ended:
		return true
	default:
		return false
	}
}

func (vm *VM) update(change func()) {
	vm.mu.Lock()
	defer vm.mu.Unlock()
	change()
	close(vm.changed)
	vm.changed = make(chan struct{})
}

// lead keeps a session with the guest until the machine ends or the host lets go.
func (vm *VM) lead() {
	if vm.machine == nil {
		vm.end("the machine ended while no host process ran")
		return
	}
	ctx, cancel := context.WithCancelCause(vm.host.ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-vm.machine.Done():
			cancel(errMachineEnded)
		case <-ctx.Done():
		}
	}()
	var failure error
	for ctx.Err() == nil {
		if failure = vm.session(ctx); failure != nil {
			break
		}
	}
	if vm.host.ctx.Err() != nil {
		return // the machine goes on without this process
	}
	select {
	case <-vm.machine.Done():
		failure = fmt.Errorf("the virtual machine ended: %s", vm.machine.LastWords())
	case <-time.After(lastBreath):
		vm.machine.Kill() // hung, hostile or refusing: of no use any more
	}
	vm.end(failure.Error())
}

var errMachineEnded = errors.New("the machine ended")

// lastBreath is how long a machine whose session failed gets to end by itself, so that it is not blamed for what
// killed it.
const lastBreath = time.Second

// session holds one session with the guest. An error means that the machine is of no use any more; nil, to begin
// another one.
func (vm *VM) session(ctx context.Context) error {
	dialing, cancel := context.WithTimeout(ctx, bootLimit+vm.host.config.HangLimit)
	defer cancel()
	conn, err := vm.machine.Dial(dialing)
	if err != nil {
		return fmt.Errorf("the guest's agent does not answer: %w", err)
	}
	defer func() { _ = conn.Close() }()
	served := make(chan error, 1)
	go func() { served <- conn.Serve() }()
	if err := vm.introduce(ctx, conn); err != nil {
		return err
	}
	vm.update(func() { vm.conn = conn })
	defer vm.update(func() { vm.conn = nil })
	failed := make(chan error, 3)
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { failed <- vm.follow(conn) })
	work.Go(func() { failed <- vm.storeLogs(conn) })
	work.Go(func() { failed <- vm.ping(ctx, conn) })
	defer func() { _ = conn.Close() }()
	var protocol *wire.ProtocolError
	select {
	case err := <-served:
		if errors.As(err, &protocol) {
			return fmt.Errorf("the guest was ended: %w", err)
		}
		return nil
	case err := <-failed:
		if errors.Is(err, wire.ErrClosed) && !errors.As(err, &protocol) {
			return nil
		}
		return err
	case <-ctx.Done():
		return nil
	}
}

// bootLimit is how long a guest may take to boot under emulation on a machine that is busy.
const bootLimit = 5 * time.Minute

// introduce makes sure that it is the right guest, and hands it its pod.
func (vm *VM) introduce(ctx context.Context, conn *wire.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, vm.host.config.HangLimit)
	defer cancel()
	var hello wire.Hello
	if err := conn.Call(ctx, wire.KindHello, nil, &hello); err != nil {
		return fmt.Errorf("the guest's agent does not answer: %w", err)
	}
	switch {
	case hello.ID == vm.record.ID:
		vm.pending = nil
		return nil
	case hello.ID != "" || vm.pending == nil:
		return fmt.Errorf("the guest says it runs pod %q", hello.ID)
	}
	makeOneself(vm.pending)
	if err := conn.Call(ctx, wire.KindStart, vm.pending, nil); err != nil {
		return fmt.Errorf("start the pod: %w", err)
	}
	vm.pending = nil
	vm.mu.Lock()
	defer vm.mu.Unlock()
	vm.record.Started = true
	return vm.record.save(vm.dir)
}

// follow keeps the pod's status.
func (vm *VM) follow(conn *wire.Conn) error {
	s, err := conn.Open(wire.KindWatch, nil)
	if err != nil {
		return err
	}
	for {
		it, err := s.Receive()
		if err != nil {
			return err
		}
		u, err := wire.Message[wire.Update](it)
		if err != nil {
			return fmt.Errorf("the guest was ended: %w", err)
		}
		vm.update(func() {
			vm.status.Phase, vm.status.Pod, vm.status.Failure = Running, u.Status, u.Status.Failure
			vm.events = append(vm.events, u.Events...)
			if extra := len(vm.events) - maxEvents; extra > 0 {
				vm.events = vm.events[extra:]
			}
		})
		if u.Status.Done {
			return vm.finish(conn)
		}
	}
}

// finish ends the machine of a pod that has run to its end: what it holds is of use to others.
func (vm *VM) finish(conn *wire.Conn) error {
	ctx, cancel := context.WithTimeout(vm.host.ctx, vm.host.config.HangLimit)
	defer cancel()
	// A log that cannot be stored in time, such as on a full disk, does not change how the pod has ended.
	if err := conn.Call(ctx, wire.KindFlush, nil, nil); err != nil && ctx.Err() == nil {
		return err
	}
	vm.machine.Kill()
	return wire.ErrClosed
}

const pingPeriod = 5 * time.Second

// ping notices a hung agent, corrects the guest's clock and keeps the console log small.
func (vm *VM) ping(ctx context.Context, conn *wire.Conn) error {
	for {
		ctx, cancel := context.WithTimeout(ctx, vm.host.config.HangLimit)
		err := conn.Call(ctx, wire.KindPing, wire.Ping{UnixNano: time.Now().UnixNano()}, nil)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("the guest's agent has not answered for %s: it was taken for hung and ended",
				vm.host.config.HangLimit)
		}
		if err != nil {
			return err
		}
		vm.machine.TrimConsole()
		select {
		case <-time.After(min(pingPeriod, vm.host.config.HangLimit)):
		case <-conn.Done():
			return wire.ErrClosed
		}
	}
}

// end notes that the machine is gone. What ran is told as kubelet tells of containers whose fate it cannot know.
func (vm *VM) end(failure string) {
	vm.update(func() {
		select {
		case <-vm.ended:
			return
		default:
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
		now := time.Now()
		for i := range vm.status.Pod.Containers {
			c := &vm.status.Pod.Containers[i]
			if vm.status.Pod.Done && c.State == wire.Waiting && c.LastExit == nil {
				continue // it never ran and never will, as the guest has said
			}
			if c.State != wire.Terminated {
				c.State, c.Reason, c.Message, c.Ready = wire.Terminated, "", "", false
				c.Exit = &wire.Exit{
					Code: 137, Reason: "ContainerStatusUnknown", Message: failure, Started: c.Started,
					Finished: now,
				}
			}
		}
		ended := vm.status
		vm.record.Ended = &ended
		if !vm.host.config.sweeping {
			_ = vm.record.save(vm.dir) // at worst a later process says so again
		}
	})
}
