package sandbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/nodeless/nodeless/microvm/wire"
)

// Resize gives a container of the running pod new resource limits.
func (g *Guest) Resize(ctx context.Context, q wire.Resize) error {
	return g.call(ctx, wire.KindResize, q, nil)
}

// Add adds an ephemeral container to the running pod. Roots are the files of its disk and those of its image volumes,
// by serial. Add can be retried after an error.
func (vm *VM) Add(ctx context.Context, c wire.Container, roots map[string]string) error {
	return vm.give(ctx, wire.KindAdd, c, roots)
}

// Supply replaces what later runs of a container of the running pod are like, except for its limits. Roots are as for
// Add; a container that is Held may have none yet. Supply can be retried after an error.
func (vm *VM) Supply(ctx context.Context, c wire.Container, roots map[string]string) error {
	return vm.give(ctx, wire.KindSupply, c, roots)
}

func (vm *VM) give(ctx context.Context, kind string, c wire.Container, roots map[string]string) error {
	vm.adding.Lock()
	defer vm.adding.Unlock()
	for _, serial := range slices.Sorted(maps.Keys(roots)) {
		if err := vm.addDisk(ctx, serial, roots[serial]); err != nil {
			return fmt.Errorf("give the guest the container's image: %w", err)
		}
	}
	a := wire.Add{
		Container: c, Index: vm.Logs.add(c.Name), Device: vm.deviceOf(c.Disk), Volumes: map[string]string{},
	}
	for _, m := range c.Mounts {
		if device := vm.deviceOf(m.Disk); device != "" {
			a.Volumes[m.Disk] = device
		}
	}
	if kind == wire.KindAdd {
		if err := vm.note(func(r *vmRecord) { r.Containers = vm.Containers() }); err != nil {
			return err
		}
	}
	if err := vm.call(ctx, kind, a, nil); err != nil || a.Device == "" && len(a.Volumes) == 0 {
		return err
	}
	return vm.note(func(r *vmRecord) { // the guest has mounted them
		delete(r.Added, c.Disk)
		maps.DeleteFunc(r.Added, func(serial, _ string) bool { return a.Volumes[serial] != "" })
	})
}

// deviceOf returns the device of a disk that the VM did not have at its start, "" for others.
func (vm *VM) deviceOf(serial string) string {
	vm.mu.Lock()
	defer vm.mu.Unlock()
	return vm.record.Added[serial]
}

// addDisk attaches a root disk to the VM on an unused device, unless the VM already has it.
func (vm *VM) addDisk(ctx context.Context, serial, root string) error {
	disks := vm.disks()
	if slices.Contains(disks, serial) {
		return nil
	}
	able, err := vm.host.config.Driver.Probe(ctx)
	switch {
	case err != nil:
		return err
	case len(disks) == 0:
		return errors.New("the microVM was started by an older release: start the pod again")
	}
	device := "" // in namespaces there is none
	if able.SharesKernel {
		err = vm.process.MountDisk(serial, root)
	} else {
		device, err = vm.process.AddDisk(ctx, len(disks), root)
	}
	if err != nil {
		return err
	}
	return vm.note(func(r *vmRecord) {
		r.Disks = append(r.Disks, serial)
		if device != "" {
			if r.Added == nil {
				r.Added = map[string]string{}
			}
			r.Added[serial] = device
		}
	})
}

func (vm *VM) disks() []string {
	vm.mu.Lock()
	defer vm.mu.Unlock()
	return vm.record.Disks
}

// note changes the record and saves it.
func (vm *VM) note(change func(*vmRecord)) error {
	vm.mu.Lock()
	defer vm.mu.Unlock()
	change(&vm.record)
	if err := vm.record.save(vm.dir); err != nil {
		return fmt.Errorf("record the microVM: %w", err)
	}
	return nil
}
