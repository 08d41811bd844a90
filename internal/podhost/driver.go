package podhost

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/nodeless/nodeless/podvm/agent"
	"github.com/nodeless/nodeless/podvm/vmm"
)

const qemuDir = "qemu" // below the state directory: what is made once for all machines

// qemu is the driver there is: QEMU with what this machine and this program have.
func qemu(dir, kernelDir string) (vmm.Driver, error) {
	kernel, err := vmm.FindKernel(kernelDir)
	if err != nil {
		return nil, err
	}
	programs, err := agent.Programs()
	if err != nil {
		return nil, err
	}
	return &vmm.QEMU{Kernel: kernel, Agent: programs, Dir: filepath.Join(dir, qemuDir), TemplateDir: templateDir(dir)}, nil
}

// reapUnfinished ends guests that an earlier process was trying out, or making templates of, when it was killed.
func reapUnfinished(dir string) error {
	dir = filepath.Join(dir, qemuDir)
	if _, err := os.Stat(dir); err != nil {
		return nil // there were none
	}
	if _, err := vmm.Reap(dir, nil); err != nil {
		return err
	}
	for _, pattern := range []string{"probe-*", "making-*"} {
		left, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, path := range left {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// templateDir is where the memory of templates is: in memory, by a name that follows from the state directory; "" where there is no such place.
func templateDir(dir string) string {
	const shm = "/dev/shm"
	if info, err := os.Stat(shm); err != nil || !info.IsDir() {
		return ""
	}
	return filepath.Join(shm, fmt.Sprintf("nodeless-%d-%s", os.Getuid(), short(dir)))
}

// short is a name of eight characters that follows from a directory.
func short(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(dir)))[:8]
}

// kernelVersion is "6.1.0-32-cloud-amd64" for /boot/vmlinuz-6.1.0-32-cloud-amd64.
func kernelVersion(d vmm.Driver) string {
	q, ok := d.(*vmm.QEMU)
	if !ok {
		return ""
	}
	_, version, _ := strings.Cut(filepath.Base(q.Kernel.Image), "-")
	return version
}

// retrying is a driver that can be asked again what it can do: what was missing may have been installed.
type retrying struct {
	make func() (vmm.Driver, error)

	mu sync.Mutex
	d  vmm.Driver // nil until there is one that has not failed
}

func (r *retrying) get() (vmm.Driver, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.d != nil {
		return r.d, nil
	}
	var err error
	r.d, err = r.make()
	return r.d, err
}

// Probe implements vmm.Driver. Only success is remembered.
func (r *retrying) Probe(ctx context.Context) (vmm.Capabilities, error) {
	d, err := r.get()
	if err != nil {
		return vmm.Capabilities{}, err
	}
	found, err := d.Probe(ctx)
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.d == d {
			r.d = nil
		}
	}
	return found, err
}

// Prepare implements vmm.Driver.
func (r *retrying) Prepare(ctx context.Context, shape vmm.Shape) error {
	d, err := r.get()
	if err != nil {
		return err
	}
	return d.Prepare(ctx, shape)
}

// Start implements vmm.Driver.
func (r *retrying) Start(ctx context.Context, spec vmm.Spec) (*vmm.Machine, bool, error) {
	d, err := r.get()
	if err != nil {
		return nil, false, err
	}
	return d.Start(ctx, spec)
}
