package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/nodeless/nodeless/internal/kit/atomicfile"
	"github.com/nodeless/nodeless/microvm/vmm"
	"github.com/nodeless/nodeless/microvm/wire"
)

// vmRecord is what a later host process needs to know about a VM. It holds none of the pod's contents: secrets exist
// only in the guest's memory.
type vmRecord struct {
	ID         string
	Grace      time.Duration
	Containers []string // names, in the pod's order; then those added to the running pod
	Disks      []string // serials of the disks on the VM's devices
	// Added are the devices of the disks that the VM did not have at its start, by the disks' serials.
	Added        map[string]string
	Network      wire.Network
	Lent         bool // the caller took the address and releases it
	FromTemplate bool
	// Started is set once the pod has been handed to the guest. A VM without it is useless after a restart of the host.
	Started bool
	// Ended is the last status of a VM whose process has ended.
	Ended *Status
}

const recordFile = "pod.json"

func readRecord(dir string) (r vmRecord, err error) {
	b, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, err
	}
	if !r.Started {
		return r, fmt.Errorf("pod %s was never started", r.ID)
	}
	return r, nil
}

func (r vmRecord) save(dir string) error {
	return atomicfile.WriteJSON(filepath.Join(dir, recordFile), r)
}

// scratchSerial names the scratch disk in the guest.
const scratchSerial = "scratch"

// start starts the VM's process. supervise hands the pod to the guest's agent.
func (vm *VM) start(ctx context.Context, w Workload) error {
	if err := vm.makeDir(w.After != nil); err != nil {
		return err
	}
	spec := vmm.Spec{ID: w.ID, Dir: vm.dir, Shape: w.Shape}
	disks, err := podDisks(ctx, vm.dir, w, &spec)
	if err != nil {
		return err
	}
	if err := vm.takeAddress(w); err != nil {
		return err
	}
	defer func() {
		if spec.Tap != nil {
			_ = spec.Tap.Close()
		}
	}()
	if err := vm.connect(ctx, &spec); err != nil {
		return err
	}
	pod, at := w.Pod, vm.record.Network
	pod.ID, pod.Disks = w.ID, disks
	if w.ScratchBytes > 0 {
		pod.Scratch = scratchSerial
	}
	pod.Network.Address, pod.Network.Gateway, pod.Network.MAC, pod.Network.MTU = at.Address, at.Gateway, at.MAC, at.MTU
	if len(pod.Network.Nameservers) == 0 {
		pod.Network.Nameservers = at.Nameservers
	}
	vm.record.Grace = pod.GracePeriod
	for _, c := range pod.Containers {
		vm.record.Containers = append(vm.record.Containers, c.Name)
	}
	for _, d := range spec.Disks {
		vm.record.Disks = append(vm.record.Disks, d.Serial)
	}
	vm.Logs = newLogs(vm.dir, vm.record.Containers)
	p, fromTemplate, err := vm.host.config.Driver.Start(ctx, spec)
	if err != nil {
		return err
	}
	vm.process, vm.record.FromTemplate, vm.pending = p, fromTemplate, &pod
	if err := vm.record.save(vm.dir); err != nil {
		p.Kill()
		return err
	}
	return nil
}

// makeDir creates the state directory. If it may exist already, makeDir removes everything in it except the logs.
func (vm *VM) makeDir(mayExist bool) error {
	if err := os.Mkdir(vm.dir, 0o700); err == nil || !mayExist {
		return err
	}
	entries, err := os.ReadDir(vm.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == logsDir {
			continue
		}
		if err := os.RemoveAll(filepath.Join(vm.dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// takeAddress records the VM's address: the caller's, that of the VM it replaces, or a free one.
func (vm *VM) takeAddress(w Workload) (err error) {
	switch {
	case w.Place != nil:
		vm.record.Lent, vm.record.Network = true, *w.Place
	case w.After != nil && !w.After.record.Lent:
		vm.record.Network = w.After.record.Network
	default:
		vm.record.Network, err = vm.host.config.Network.Take(w.ID)
	}
	return err
}

// connect connects the VM to the network as its driver requires.
func (vm *VM) connect(ctx context.Context, spec *vmm.Spec) error {
	network, at := vm.host.config.Network, vm.record.Network
	able, err := vm.host.config.Driver.Probe(ctx)
	if err != nil {
		return err
	}
	if able.SharesKernel {
		spec.Link = func(pid int) error { return network.Link(at, pid) }
		return nil
	}
	return network.Attach(at, spec)
}

// podDisks adds the pod's disks to spec: its root disks and, if requested, a scratch disk in dir. It returns the
// serials of the root disks.
func podDisks(ctx context.Context, dir string, w Workload, spec *vmm.Spec) (roots []string, err error) {
	roots = slices.Sorted(maps.Keys(w.Roots))
	for _, serial := range roots {
		if _, err := os.Stat(w.Roots[serial]); err != nil {
			return nil, fmt.Errorf("root disk %s: %w", serial, err)
		}
		spec.Disks = append(spec.Disks, vmm.Disk{Path: w.Roots[serial], Serial: serial, ReadOnly: true})
	}
	if w.ScratchBytes > 0 {
		path := filepath.Join(dir, "scratch.ext4")
		if err := makeScratch(ctx, path, w.ScratchBytes); err != nil {
			return nil, fmt.Errorf("make the scratch disk: %w", err)
		}
		spec.Disks = append(spec.Disks, vmm.Disk{Path: path, Serial: scratchSerial})
	}
	return roots, nil
}

// makeScratch creates an empty ext4 file system in a sparse file, which uses the host's disk only as it is written.
func makeScratch(ctx context.Context, path string, size int64) error {
	mke2fs, err := exec.LookPath("mke2fs")
	if err != nil {
		if mke2fs, err = exec.LookPath("/sbin/mke2fs"); err != nil {
			return fmt.Errorf("mke2fs is not installed (Debian: apt-get install e2fsprogs): %w", err)
		}
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(path, size); err != nil {
		return err
	}
	// The disk needs no journal, since it ends with its pod; its inode tables need not be written, since the file is
	// all zeros.
	cmd := exec.CommandContext(ctx, mke2fs, "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-E",
		"lazy_itable_init=1,nodiscard,root_owner=0:0", path)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	return nil
}

// makeUnique sets what must be fresh when the guest gets its pod: until then, a guest started from a template shares
// its clock and randomness with others.
func makeUnique(pod *wire.Pod) {
	var id [16]byte
	pod.Entropy = make([]byte, 64)
	_, _ = rand.Read(id[:]) // never fails
	_, _ = rand.Read(pod.Entropy)
	pod.MachineID = hex.EncodeToString(id[:])
	pod.UnixNano = time.Now().UnixNano()
}
