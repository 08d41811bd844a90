// Package sandbox runs each pod of a host in its own virtual machine, or in namespaces on hosts that cannot run
// virtual machines. The guest's agent (package guest) runs the containers. The host starts the VM, stores the pod's
// logs, forwards exec, attach, port-forward and file updates, detects when the VM dies or hangs, and cleans up.
//
// VMs outlive the host process. When it ends or is killed they keep running; the next process adopts them from their
// state directories and loses neither status nor log lines. Processes and directories that do not belong to an
// adopted VM are removed.
package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
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

// ErrExists is returned by Run if there is a VM of the same name.
var ErrExists = errors.New("a VM of this name exists")

// Config configures a Host.
type Config struct {
	// Dir is the state directory. It is private, used by one process at a time, and kept across restarts.
	Dir string
	// Driver starts the VMs.
	Driver vmm.Driver
	// Network connects the VMs; nil means user-mode networking (UserMode).
	Network Network
	// BootLimit is how long a guest may take to boot; 0 means two minutes. A guest that has not answered after
	// BootLimit plus HangLimit is ended, and its pod gets another one.
	BootLimit time.Duration
	// HangLimit is how long an agent may leave a request unanswered before its VM counts as hung and is killed; 0 means
	// one minute.
	HangLimit time.Duration
	// Templates makes the host prepare, in the background, a template of each shape that it boots.
	Templates bool

	// sweeping is set while this process ends VMs for its own reasons. Their ends are not recorded as their pods' ends.
	sweeping bool
}

// Host runs pods in VMs. It is safe for concurrent use.
type Host struct {
	config Config
	lock   *os.File
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu  sync.Mutex
	vms map[string]*VM
}

// Open takes over a state directory: it adopts the VMs that still run and removes everything else that an earlier
// process left behind. It does not check whether the driver can start VMs.
func Open(c Config) (*Host, error) {
	// Six emulated guests that booted at once on two busy cores took at most 10 s.
	c.BootLimit = cmp.Or(c.BootLimit, 2*time.Minute)
	c.HangLimit = cmp.Or(c.HangLimit, time.Minute)
	if c.Network == nil {
		c.Network = defaultUserMode()
	}
	h := &Host{config: c, vms: map[string]*VM{}}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	if err := os.MkdirAll(h.vmsPath(), 0o700); err != nil {
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

// lockDir keeps other processes from using a directory until the file is closed or this process ends.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, errors.New("the state directory is in use by another process")
	}
	return f, nil
}

// vmsDir holds the state directories of the VMs.
const vmsDir = "machines"

func (h *Host) vmsPath() string { return filepath.Join(h.config.Dir, vmsDir) }

// Close stops watching the VMs, which continue to run.
func (h *Host) Close() error {
	h.cancel()
	h.work.Wait()
	return h.lock.Close()
}

// adopt finds the VMs of an earlier process and supervises them.
func (h *Host) adopt() error {
	entries, err := os.ReadDir(h.vmsPath())
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	var useless []string
	for _, e := range entries {
		dir := filepath.Join(h.vmsPath(), e.Name())
		r, err := readRecord(dir)
		if err != nil { // the earlier process was killed before it handed over the pod
			useless = append(useless, dir)
			continue
		}
		vm := newVM(h, dir, r)
		if p, err := vmm.Adopt(dir); err == nil {
			vm.process = p
			keep[e.Name()] = true
		}
		vm.lost = vm.process == nil && r.Ended == nil
		h.config.Network.Keep(r.Network)
		h.vms[r.ID] = vm
	}
	if _, err := vmm.Reap(h.vmsPath(), keep); err != nil {
		return err
	}
	for _, dir := range useless {
		_ = os.RemoveAll(dir)
	}
	for _, vm := range h.vms {
		h.work.Go(vm.supervise)
	}
	return nil
}

// VM returns a VM by its ID.
func (h *Host) VM(id string) (*VM, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if vm, ok := h.vms[id]; ok {
		return vm, nil
	}
	return nil, fmt.Errorf("no such VM: %s", id)
}

// VMs returns all VMs that have not been removed, ended ones included.
func (h *Host) VMs() []*VM {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.vms))
}

// Workload is a pod to run.
type Workload struct {
	// ID names the VM, its directory and its cgroup. It has 1 to 63 letters, digits, dots and hyphens.
	ID    string
	Shape vmm.Shape
	// Roots are the files of the root disks, keyed by the containers' Disk.
	Roots map[string]string
	// ScratchBytes is the size of the disk for writable layers and emptyDirs; 0 keeps them in the guest's memory.
	ScratchBytes int64
	// Place is the VM's address, taken from the network by the caller, who releases it when the VM is gone. If nil, the
	// host takes an address and releases it when the VM is removed.
	Place *wire.Network
	// Pod is what the guest runs. Run fills in ID, Disks, Scratch, the addresses in Network, time, entropy and machine
	// ID.
	Pod wire.Pod
	// After is the ended VM of the same pod, if there was one. The new VM takes over its name, address and logs.
	After *VM `json:"-"`
}

var idPattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9.-]{0,62}$`)

// minMemoryMiB is the smallest guest in which Debian's kernel boots and leaves room for the agent.
const minMemoryMiB = 96

// Run starts a VM for a pod and returns once its process runs; from then on the VM's status reports its progress. If
// Run fails it leaves nothing behind.
func (h *Host) Run(ctx context.Context, w Workload) (*VM, error) {
	if !idPattern.MatchString(w.ID) {
		return nil, fmt.Errorf("run %q: a VM's name has 1 to 63 letters, digits, dots and hyphens", w.ID)
	}
	if w.Shape.MemoryMiB < minMemoryMiB || w.Shape.CPUs < 1 {
		return nil, fmt.Errorf("run %s: a guest needs at least one CPU and %d MiB of memory, not %d and %d MiB", w.ID,
			minMemoryMiB, w.Shape.CPUs, w.Shape.MemoryMiB)
	}
	vm := newVM(h, filepath.Join(h.vmsPath(), w.ID), vmRecord{ID: w.ID})
	h.mu.Lock()
	if old, ok := h.vms[w.ID]; ok && (old != w.After || !isClosed(old.ended)) {
		h.mu.Unlock()
		return nil, fmt.Errorf("run %s: %w", w.ID, ErrExists)
	}
	h.vms[w.ID] = vm
	h.mu.Unlock()
	if err := vm.start(ctx, w); err != nil {
		if w.After == nil {
			h.forget(vm)
		} else { // the caller may try again
			h.mu.Lock()
			h.vms[w.ID] = w.After
			h.mu.Unlock()
		}
		return nil, fmt.Errorf("run %s: %w", w.ID, err)
	}
	h.work.Go(vm.supervise)
	if h.config.Templates && !vm.record.FromTemplate {
		h.work.Go(func() { _ = h.config.Driver.Prepare(h.ctx, w.Shape) }) // on failure the next VM boots, too
	}
	return vm, nil
}

// forget removes all that is left of a VM whose process has ended.
func (h *Host) forget(vm *VM) {
	_ = os.RemoveAll(vm.dir)
	_ = h.config.Network.Unlink(vm.record.Network) // it vanishes with its namespace, but only after a moment
	if !vm.record.Lent {
		h.config.Network.Release(vm.record.Network)
	}
	h.mu.Lock()
	delete(h.vms, vm.record.ID)
	h.mu.Unlock()
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
