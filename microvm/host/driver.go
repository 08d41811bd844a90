package host

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/nodeless/nodeless/api/v1alpha1"
	"github.com/nodeless/nodeless/microvm/programs"
	"github.com/nodeless/nodeless/microvm/sandbox"
	"github.com/nodeless/nodeless/microvm/vmm"
)

// Directories below the state directory, for what all microVMs share.
const (
	qemuDir       = "qemu"
	namespacesDir = "namespaces"
)

// Engine parses the name of an engine, ignoring case.
func Engine(name string) (v1alpha1.Engine, error) {
	for _, e := range []v1alpha1.Engine{
		v1alpha1.EngineAuto, v1alpha1.EngineKVM, v1alpha1.EngineTCG, v1alpha1.EngineNamespace,
	} {
		if strings.EqualFold(name, string(e)) {
			return e, nil
		}
	}
	return "", fmt.Errorf("engine %q: give auto (KVM where a guest boots with it, else TCG), kvm, tcg or namespace (no "+
		"virtual machines, no security boundary)", name)
}

// driver returns the driver of the engine in o. Pods run without virtual machines only if o says so explicitly.
func driver(o Options) (vmm.Driver, error) {
	if o.Engine == v1alpha1.EngineNamespace {
		programs, err := programs.Programs()
		if err != nil {
			return nil, err
		}
		return &vmm.Namespaces{Agent: programs, Dir: filepath.Join(o.Dir, namespacesDir)}, nil
	}
	kernel, err := vmm.FindKernel(o.Kernel)
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, namespaceAdvice)
	}
	programs, err := programs.Programs()
	if err != nil {
		return nil, err
	}
	q := &vmm.QEMU{Kernel: kernel, Agent: programs, Dir: filepath.Join(o.Dir, qemuDir), TemplateDir: templateDir(o.Dir)}
	if o.Engine == v1alpha1.EngineKVM || o.Engine == v1alpha1.EngineTCG {
		q.Accelerator = strings.ToLower(string(o.Engine))
	}
	return q, nil
}

// namespaceAdvice tells users what to do on an instance that cannot run virtual machines.
const namespaceAdvice = "; a machine without virtual machines can run pods of profiles with spec.engine: " +
	"Namespace, without any security boundary: start the host with --engine namespace"

// removeUnfinished removes the guests that a killed process used for probing or for making templates.
func removeUnfinished(dir string) error {
	for _, below := range []string{qemuDir, namespacesDir} {
		of := filepath.Join(dir, below)
		if _, err := os.Stat(of); err != nil {
			continue // there are none
		}
		if _, err := vmm.Reap(of, nil); err != nil {
			return err
		}
		for _, pattern := range []string{"probe-*", "making-*"} {
			left, _ := filepath.Glob(filepath.Join(of, pattern))
			for _, path := range left {
				if err := os.RemoveAll(path); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// templateDir returns the directory of template memory: in shared memory, with a name derived from the state
// directory; "" if there is no shared memory.
func templateDir(dir string) string {
	const shm = "/dev/shm"
	if info, err := os.Stat(shm); err != nil || !info.IsDir() {
		return ""
	}
	return filepath.Join(shm, fmt.Sprintf("nodeless-%d-%s", os.Getuid(), shortHash(dir)))
}

// shortHash returns eight hexadecimal digits derived from the path of a directory.
func shortHash(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(dir)))[:8]
}

// engineOf returns the engine that a driver provides, as profiles name it.
func engineOf(found vmm.Capabilities) string {
	if found.SharesKernel {
		return string(v1alpha1.EngineNamespace)
	}
	return strings.ToUpper(found.Accelerator)
}

// kernelVersion returns "6.1.0-32-cloud-amd64" for /boot/vmlinuz-6.1.0-32-cloud-amd64.
func kernelVersion(d vmm.Driver, found vmm.Capabilities) string {
	if found.SharesKernel {
		return strings.TrimPrefix(found.Version, "Linux ")
	}
	q, ok := d.(*vmm.QEMU)
	if !ok {
		return ""
	}
	_, version, _ := strings.Cut(filepath.Base(q.Kernel.Image), "-")
	return version
}

// retryingDriver is a driver that can be probed again after a failure, since what was missing may be installed now.
type retryingDriver struct {
	make func() (vmm.Driver, error)

	mu sync.Mutex
	d  vmm.Driver // nil until made, and after a failed probe
}

func (r *retryingDriver) get() (vmm.Driver, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.d != nil {
		return r.d, nil
	}
	var err error
	r.d, err = r.make()
	return r.d, err
}

// Probe implements vmm.Driver. After a failure, the next call makes a new driver.
func (r *retryingDriver) Probe(ctx context.Context) (vmm.Capabilities, error) {
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
func (r *retryingDriver) Prepare(ctx context.Context, shape vmm.Shape) error {
	d, err := r.get()
	if err != nil {
		return err
	}
	return d.Prepare(ctx, shape)
}

// Start implements vmm.Driver.
func (r *retryingDriver) Start(ctx context.Context, spec vmm.Spec) (*vmm.Process, bool, error) {
	d, err := r.get()
	if err != nil {
		return nil, false, err
	}
	return d.Start(ctx, spec)
}

// Sweep ends the microVMs of a state directory that no process uses. Their pods get their grace period, at most until
// ctx is done. Sweep also frees the memory of templates and removes the bridge. The directory keeps what the next
// process needs to start the pods again. Sweep returns how many microVMs were running.
func Sweep(ctx context.Context, dir string) (ended int, err error) {
	if ended, err = sandbox.Sweep(ctx, dir); err != nil {
		return ended, err
	}
	if err := removeUnfinished(dir); err != nil {
		return ended, err
	}
	if t := templateDir(dir); t != "" {
		if err := os.RemoveAll(t); err != nil {
			return ended, fmt.Errorf("remove the templates of microVMs: %w", err)
		}
	}
	if os.Geteuid() == 0 {
		err = sandbox.DeleteBridge(bridgeName(dir))
	}
	return ended, err
}
