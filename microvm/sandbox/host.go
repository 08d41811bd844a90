// Package sandbox runs pods in virtual machines of their own on this machine. A pod's life is its guest's business
// (package guest); the host starts the machine, keeps what the pod logs, passes exec, attach, port-forward and file
// updates on, notices when a machine dies or hangs, and cleans up.
//
// The machines do not need the host process. When it ends, or is killed, they go on; the next one takes them up again
// by their state directories and loses neither status nor log lines. What has no state directory, or a directory that
// no machine goes with, is removed.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/vmm"
	"github.com/nodeless/nodeless/microvm/wire"
)

// Errors of the host.
var (
	ErrNotFound = errors.New("no such machine")
	ErrExists   = errors.New("there is a machine with this name")
	ErrInUse    = errors.New("the state directory is in use by another process")
)

// Config of a host.
type Config struct {
	// Dir is the state directory: private, of one host process at a time, kept over restarts.
	Dir string
	// Driver runs the machines.
	Driver vmm.Driver
	// Network connects them; nil is user-mode networking (UserMode).
	Network Network
	// HangLimit is how long an agent may not answer before its machine is taken for hung and ended; 0 is a minute.
	HangLimit time.Duration
	// Templates makes a template of each shape that is asked for, in the background.
	Templates bool

	// sweeping: machines end because this process wants it, which the next one is not to take for their pods' end.
	sweeping bool
}

// Host runs pods on this machine. Its methods may be used by many goroutines.
type Host struct {
	config Config
	lock   *os.File
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu  sync.Mutex
	vms map[string]*VM
}

// Open takes charge of a state directory: machines that still run are taken up again, all else that was left behind
// is removed. Whether the driver can start machines is not asked: see Capabilities.
func Open(c Config) (*Host, error) {
	if c.HangLimit == 0 {
		c.HangLimit = time.Minute
	}
	if c.Network == nil {
		c.Network = defaultUserMode()
	}
	h := &Host{config: c, vms: map[string]*VM{}}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	if err := os.MkdirAll(h.machines(), 0o700); err != nil {
		return nil, fmt.Errorf("open the microVM host: %w", err)
	}
	var err error
	if h.lock, err = lockDir(c.Dir); err != nil {
		return nil, fmt.Errorf("open the microVM host: %s: %w", c.Dir, err)
	}
	if err := h.adopt(); err != nil {
		_ = h.Close()
		return nil, fmt.Errorf("open the microVM host: %w", err)
	}
	return h, nil
}

// lockDir keeps a second process out. The lock goes with the process.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, ErrInUse
	}
	return f, nil
}

const machinesDir = "machines"

func (h *Host) machines() string { return filepath.Join(h.config.Dir, machinesDir) }

// Capabilities of the host's driver, which are found by booting a guest and then remembered.
func (h *Host) Capabilities(ctx context.Context) (vmm.Capabilities, error) {
	return h.config.Driver.Probe(ctx)
}

// Close lets go of the machines, which go on running.
func (h *Host) Close() error {
	h.cancel()
	h.work.Wait()
	return h.lock.Close()
}

// adopt takes up the machines of an earlier process.
func (h *Host) adopt() error {
	entries, err := os.ReadDir(h.machines())
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	var useless []string
	for _, e := range entries {
		dir := filepath.Join(h.machines(), e.Name())
		r, err := readRecord(dir)
		if err != nil { // it was killed before the pod was on its way: nothing has heard of it
			useless = append(useless, dir)
			continue
		}
		vm := newVM(h, dir, r)
		if m, err := vmm.Adopt(dir); err == nil {
			vm.machine = m
			keep[e.Name()] = true
		}
		vm.lost = vm.machine == nil && r.Ended == nil
		h.config.Network.Keep(r.Network)
		h.vms[r.ID] = vm
	}
	if _, err := vmm.Reap(h.machines(), keep); err != nil {
		return err
	}
	for _, dir := range useless {
		_ = os.RemoveAll(dir)
	}
	for _, vm := range h.vms {
		h.work.Go(vm.lead)
	}
	return nil
}

// VM by id.
func (h *Host) VM(id string) (*VM, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if vm, ok := h.vms[id]; ok {
		return vm, nil
	}
	return nil, fmt.Errorf("%w: %s", ErrNotFound, id)
}

// VMs are all that were started and not removed, by id.
func (h *Host) VMs() []*VM {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*VM
	for _, vm := range h.vms {
		all = append(all, vm)
	}
	slices.SortFunc(all, func(a, b *VM) int {
		if a.ID() < b.ID() {
			return -1
		}
		return 1
	})
	return all
}

// Workload is a pod to be run.
type Workload struct {
	// ID names the machine, its directory and cgroup: a pod's UID. Letters, digits, dots and hyphens.
	ID    string
	Shape vmm.Shape
	// Roots are the files of the root disks, by the names the containers' Disk fields use.
	Roots map[string]string
	// ScratchBytes is the size of the disk for writable layers and emptyDirs; 0 keeps them in the guest's memory.
	ScratchBytes int64
	// Place is the machine's in the network, taken by the caller and given back by it when the machine is gone; nil
	// takes one for as long as the VM is known.
	Place *wire.Network
	// Pod is what runs. The host fills in ID, Disks, Scratch, Network addresses, time, entropy and machine id.
	Pod wire.Pod
	// After is the pod's VM before this one, whose machine has ended: the new one takes its name, its place and its
	// logs. nil: there was none.
	After *VM `json:"-"`
	// Resolve, if set, gives Pod once the pod's address is known, for what refers to it.
	Resolve func(address string) (wire.Pod, error) `json:"-"`
}

var idPattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9.-]{0,62}$`)

// Run starts a machine for a pod and returns when its process runs; the VM's status tells the rest. An error leaves
// nothing behind.
func (h *Host) Run(ctx context.Context, w Workload) (*VM, error) {
	if !idPattern.MatchString(w.ID) {
		return nil, fmt.Errorf("run %q: a machine's name is 1 to 63 letters, digits, dots and hyphens", w.ID)
	}
	if w.Shape.MemoryMiB < MinimalMemoryMiB || w.Shape.CPUs < 1 {
		return nil, fmt.Errorf("run %s: a guest needs a CPU and %d MiB of memory at least, not %d and %d MiB", w.ID,
			MinimalMemoryMiB, w.Shape.CPUs, w.Shape.MemoryMiB)
	}
	dir := filepath.Join(h.machines(), w.ID)
	vm := newVM(h, dir, vmRecord{ID: w.ID})
	h.mu.Lock()
	if old, ok := h.vms[w.ID]; ok && (old != w.After || !old.over()) {
		h.mu.Unlock()
		return nil, fmt.Errorf("run %s: %w", w.ID, ErrExists)
	}
	h.vms[w.ID] = vm
	h.mu.Unlock()
	if err := vm.begin(ctx, w); err != nil {
		if w.After == nil {
			h.forget(vm)
		} else { // it can be tried again
			h.mu.Lock()
			h.vms[w.ID] = w.After
			h.mu.Unlock()
		}
		return nil, fmt.Errorf("run %s: %w", w.ID, err)
	}
	h.work.Go(vm.lead)
	if h.config.Templates && !vm.record.FromTemplate {
		h.work.Go(func() { _ = h.config.Driver.Prepare(h.ctx, w.Shape) }) // without one the next boots as this one did
	}
	return vm, nil
}

// MinimalMemoryMiB is the smallest guest Debian's kernel boots in with room for the agent.
const MinimalMemoryMiB = 96

// forget removes all traces of a VM whose machine has ended.
func (h *Host) forget(vm *VM) {
	_ = os.RemoveAll(vm.dir)
	if linker, ok := h.config.Network.(Linker); ok {
		_ = linker.Unlink(vm.record.Network) // it goes with its namespace, which takes the kernel a moment
	}
	if !vm.record.Lent {
		h.config.Network.Release(vm.record.Network)
	}
	h.mu.Lock()
	delete(h.vms, vm.record.ID)
	h.mu.Unlock()
}
