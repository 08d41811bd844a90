package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nodeless/nodeless/microvm/vmm"
	"github.com/nodeless/nodeless/microvm/wire"
)

// vmRecord is what a later host process needs to know of a VM. It holds no content of the pod: secrets are in the
// guest's memory alone.
type vmRecord struct {
	ID           string
	Grace        time.Duration
	Containers   []string // names, in the pod's order
	Network      wire.Network
	Lent         bool // the place in the network is the caller's, who gives it back
	FromTemplate bool
	// Started: the pod was handed to the guest. A machine without it is of no use after a restart of the host.
	Started bool
	// Ended is the last status of a VM whose machine is gone.
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
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	next := filepath.Join(dir, recordFile+".new")
	if err := os.WriteFile(next, b, 0o600); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(dir, recordFile))
}

// scratchSerial names the scratch disk in the guest.
const scratchSerial = "scratch"

// begin starts the machine and hands the pod to its agent, in the background.
func (vm *VM) begin(ctx context.Context, w Workload) (err error) {
	if err := vm.makeDir(w.After != nil); err != nil {
		return err
	}
	spec := vmm.Spec{ID: w.ID, Dir: vm.dir, Shape: w.Shape}
	disks, err := podDisks(ctx, vm.dir, w, &spec)
	if err != nil {
		return err
	}
	at, err := vm.place(w)
	if err != nil {
		return err
	}
	release, err := vm.attach(ctx, &spec, at)
	if err != nil {
		return err
	}
	defer release()
	pod := w.Pod
	if w.Resolve != nil {
		if pod, err = w.Resolve(addressOf(at)); err != nil {
			return err
		}
	}
	vm.record.Grace = pod.GracePeriod
	pod.ID, pod.Disks = w.ID, disks
	if w.ScratchBytes > 0 {
		pod.Scratch = scratchSerial
	}
	pod.Network.Address, pod.Network.Gateway, pod.Network.MAC, pod.Network.MTU = at.Address, at.Gateway, at.MAC, at.MTU
	if len(pod.Network.Nameservers) == 0 {
		pod.Network.Nameservers = at.Nameservers
	}
	for _, c := range pod.Containers {
		vm.record.Containers = append(vm.record.Containers, c.Name)
	}
	vm.logs = newLogFiles(vm.dir, vm.record.Containers)
	m, fromTemplate, err := vm.host.config.Driver.Start(ctx, spec)
	if err != nil {
		return err
	}
	vm.machine, vm.record.FromTemplate, vm.pending = m, fromTemplate, &pod
	if err := vm.record.save(vm.dir); err != nil {
		m.Kill()
		return err
	}
	return nil
}

// podDisks adds the pod's disks to spec: the root disks, and, in dir, the scratch disk if it wants one. The answer is
// the root disks' serials, in the order of spec.
func podDisks(ctx context.Context, dir string, w Workload, spec *vmm.Spec) (roots []string, err error) {
	for serial := range w.Roots {
		roots = append(roots, serial)
	}
	slices.Sort(roots)
	for _, serial := range roots {
		if _, err := os.Stat(w.Roots[serial]); err != nil {
			return nil, fmt.Errorf("root disk %s: %w", serial, err)
		}
		spec.Disks = append(spec.Disks, vmm.Disk{Path: w.Roots[serial], Serial: serial, ReadOnly: true})
	}
	if w.ScratchBytes > 0 {
		path := filepath.Join(dir, "scratch.ext4")
		if err := makeScratch(ctx, path, w.ScratchBytes); err != nil {
			return nil, err
		}
		spec.Disks = append(spec.Disks, vmm.Disk{Path: path, Serial: scratchSerial})
	}
	return roots, nil
}

// makeDir makes the state directory. One that is there is left its logs, which go on in it.
func (vm *VM) makeDir(again bool) error {
	if err := os.Mkdir(vm.dir, 0o700); err == nil || !again {
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

// attach connects the machine to the network in the way its driver can use. release is to be called when it has
// started.
func (vm *VM) attach(ctx context.Context, spec *vmm.Spec, at wire.Network) (release func(), err error) {
	network := vm.host.config.Network
	able, err := vm.host.config.Driver.Probe(ctx)
	if err != nil {
		return nil, err
	}
	if able.SharesKernel {
		linker, ok := network.(Linker)
		if !ok {
			return nil, fmt.Errorf("a network of this kind (%T) connects no namespaces", network)
		}
		spec.Link = func(pid int) error { return linker.Link(at, pid) }
		return func() {}, nil
	}
	net, err := network.Attach(spec.ID, at)
	if err != nil {
		return nil, err
	}
	spec.Tap, spec.UserNet = net.Tap, net.UserNet
	return func() {
		if net.Tap != nil {
			_ = net.Tap.Close()
		}
	}, nil
}

// place is the machine's in the network: the one the caller took for it, or a new one.
func (vm *VM) place(w Workload) (wire.Network, error) {
	vm.record.Lent = w.Place != nil
	if vm.record.Lent {
		vm.record.Network = *w.Place
		return *w.Place, nil
	}
	if w.After != nil && !w.After.record.Lent {
		vm.record.Network = w.After.record.Network
		return vm.record.Network, nil
	}
	var err error
	vm.record.Network, err = vm.host.config.Network.Take(w.ID)
	return vm.record.Network, err
}

// makeOneself adds what must be fresh at the moment the guest gets its pod.
func makeOneself(pod *wire.Pod) {
	var id [16]byte
	pod.Entropy = make([]byte, 64)
	_, _ = rand.Read(id[:]) // never fails
	_, _ = rand.Read(pod.Entropy)
	pod.MachineID = hex.EncodeToString(id[:])
	pod.UnixNano = time.Now().UnixNano()
}
