package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nodeless/nodeless/microvm/vmm"
)

// Sweep ends all machines of a state directory that no host process has charge of, and says how many ran. Their pods
// have their grace before, for as long as ctx is not done. What the next process has to know of them stays: to it
// they are machines that were lost.
func Sweep(ctx context.Context, dir string) (ended int, err error) {
	machines := filepath.Join(dir, machinesDir)
	if _, err := os.Stat(machines); errors.Is(err, os.ErrNotExist) {
		return 0, nil // it has never had any
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("end the machines of %s: %w", dir, err)
		}
	}()
	asked, err := farewell(ctx, dir)
	if err != nil {
		return 0, err
	}
	lock, err := lockDir(dir)
	if err != nil {
		return 0, err
	}
	defer func() { _ = lock.Close() }()
	left, err := vmm.Reap(machines, nil)
	return asked + left, err
}

// farewell has the pods of all machines end as they would like to, and returns how many did.
func farewell(ctx context.Context, dir string) (ended int, err error) {
	if ctx.Err() != nil {
		return 0, nil
	}
	h, err := Open(Config{Dir: dir, sweeping: true})
	if err != nil {
		return 0, err
	}
	var work sync.WaitGroup
	var mu sync.Mutex
	for _, vm := range h.VMs() {
		if vm.machine == nil {
			continue
		}
		work.Go(func() {
			vm.farewell(ctx)
			select {
			case <-vm.machine.Done():
				mu.Lock()
				ended++
				mu.Unlock()
			default: // it is ended without
			}
		})
	}
	work.Wait()
	return ended, h.Close()
}

// reachLimit is how long a guest may take to be reached for its pod's farewell.
const reachLimit = 10 * time.Second

// farewell has the pod end, with its grace, and waits for its machine.
func (vm *VM) farewell(ctx context.Context) {
	reaching, cancel := context.WithTimeout(ctx, reachLimit)
	conn, err := vm.await(reaching)
	cancel()
	if err != nil {
		return
	}
	stopping, cancel := context.WithTimeout(ctx, vm.record.Grace+reachLimit)
	defer cancel()
	vm.sayStop(stopping, conn, vm.record.Grace)
	vm.machine.Kill()
}
