package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/nodeless/nodeless/microvm/vmm"
)

// Sweep ends all VMs of a state directory that no host process uses, and returns how many were running. Until ctx is
// done, it grants their pods their grace periods. The records stay: the next host process sees the VMs as lost.
func Sweep(ctx context.Context, dir string) (ended int, err error) {
	vms := filepath.Join(dir, vmsDir)
	if _, err := os.Stat(vms); errors.Is(err, os.ErrNotExist) {
		return 0, nil // there have never been any
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("end the VMs of %s: %w", dir, err)
		}
	}()
	stopped, err := stopAll(ctx, dir)
	if err != nil {
		return 0, err
	}
	lock, err := lockDir(dir)
	if err != nil {
		return 0, err
	}
	defer func() { _ = lock.Close() }()
	killed, err := vmm.Reap(vms, nil)
	return stopped + killed, err
}

// stopAll ends the pods of all VMs within their grace periods, and returns how many VMs have ended.
func stopAll(ctx context.Context, dir string) (int, error) {
	if ctx.Err() != nil {
		return 0, nil //nolint:nilerr // there is no time for grace periods
	}
	h, err := Open(Config{Dir: dir, sweeping: true})
	if err != nil {
		return 0, err
	}
	var work sync.WaitGroup
	var ended atomic.Int64
	for _, vm := range h.VMs() {
		if vm.process == nil {
			continue
		}
		work.Go(func() {
			vm.stopWithin(ctx)
			if isClosed(vm.process.Done()) { // otherwise Sweep kills it
				ended.Add(1)
			}
		})
	}
	work.Wait()
	return int(ended.Load()), h.Close()
}

// stopWithin ends the pod within its grace period, and then ends the VM.
func (vm *VM) stopWithin(ctx context.Context) {
	reaching, cancel := context.WithTimeout(ctx, vm.host.config.HangLimit)
	defer cancel()
	conn, err := vm.connected(reaching)
	if err != nil {
		return
	}
	stopping, cancel := context.WithTimeout(ctx, vm.record.Grace+vm.host.config.HangLimit)
	defer cancel()
	vm.stopPod(stopping, conn, vm.record.Grace)
	vm.process.Kill()
}
