package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nodeless/nodeless/microvm/wire"
)

// Resize gives a container of the running pod new resource limits.
func (g *Guest) Resize(ctx context.Context, q wire.Resize) error {
	return g.call(ctx, wire.KindResize, q, nil)
}

// Add adds an ephemeral container to the running pod. The container's Disk is the serial of its root disk, whose file
// is root. Add can be retried after an error.
func (vm *VM) Add(ctx context.Context, c wire.Container, root string) error {
	vm.adding.Lock()
	defer vm.adding.Unlock()
	if err := vm.addDisk(ctx, c.Disk, root); err != nil {
		return fmt.Errorf("give the guest the container's image: %w", err)
	}
	a := wire.Add{Container: c, Index: vm.Logs.add(c.Name), Device: vm.unmounted[c.Disk]}
	if err := vm.note(func(r *vmRecord) { r.Containers = vm.Containers() }); err != nil {
		return err
	}
	if err := vm.call(ctx, wire.KindAdd, a, nil); err != nil {
		return err
	}
	delete(vm.unmounted, c.Disk)
	return nil
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
	case able.SharesKernel:
		if err := vm.process.MountDisk(serial, root); err != nil {
			return err
		}
	default:
		device, err := vm.process.AddDisk(ctx, len(disks), root)
		if err != nil {
			return err
		}
		vm.unmounted[serial] = device
	}
	return vm.note(func(r *vmRecord) { r.Disks = append(r.Disks, serial) })
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
