// Package vmm starts, adopts and ends the virtual machines of pods. A Driver is one way to run them. QEMU runs guests
// with QEMU's microvm machine type: under KVM where a guest actually boots with it, otherwise under pure emulation
// (TCG). Namespaces runs the same agent in Linux namespaces, on hosts that cannot run virtual machines.
//
// A VM is a process with its own session and, where cgroups are writable, its own cgroup. It does not depend on the
// process that started it: a later one adopts it by its state directory. Nothing outlives it: its network tap is open
// only in its process, and its other files are in the directory.
package vmm

import (
	"context"
	"errors"
	"os"
	"time"
)

// Errors of a host that lacks what virtual machines need. Their messages say how to get it.
var (
	ErrNoKernel = errors.New("no guest kernel")
	ErrNoVMM    = errors.New("no virtual machine monitor")
)

// Shape is the size of a guest. Each shape has its own template.
type Shape struct {
	CPUs      int
	MemoryMiB int
}

// MaxDisks is how many disks a VM can have: QEMU's microvm has eight device slots, two of which are the control port's
// and the network's.
const MaxDisks = 6

// Disk is a disk of a VM: a raw image file.
type Disk struct {
	Path     string
	Serial   string // at most 20 bytes
	ReadOnly bool
}

// Spec is a VM to start.
type Spec struct {
	ID    string
	Dir   string // the state directory, which exists and is the VM's alone
	Shape Shape
	Disks []Disk
	// Tap is an open tap, which the caller closes after the start. It vanishes with the VM's process.
	Tap *os.File
	// UserNet is a network that needs no privileges. Without it and Tap the VM reaches nothing.
	UserNet *UserNet
	// Link creates the device eth0 in the network namespace of a process, for drivers whose Capabilities include
	// SharesKernel. If nil, the VM has no such device.
	Link func(pid int) error
}

// Capabilities say what a driver can do on this host.
type Capabilities struct {
	Driver      string // "qemu" or "namespace"
	Accelerator string // "kvm", "tcg" or "none"
	Version     string // of the VMM
	// SharesKernel is set if there are no virtual machines, and pods share the host's kernel.
	SharesKernel bool
	// Warning is what the user must know, "" if nothing.
	Warning string
	// Boot is how long the agent of the probe guest took to answer.
	Boot time.Duration
}

// Driver is one way to run VMs. It is safe for concurrent use.
type Driver interface {
	// Probe determines what the driver can do on this host by booting a guest, and caches the result.
	Probe(ctx context.Context) (Capabilities, error)
	// Prepare makes a template of a shape, unless there is one, from which Start restores guests instead of booting
	// them.
	Prepare(ctx context.Context, shape Shape) error
	// Start starts a VM and returns when its process runs. It reports whether the guest was restored from a template.
	Start(ctx context.Context, spec Spec) (p *Process, fromTemplate bool, err error)
}

// Agent holds the guest's two programs, linked statically: microvm/guest/agent and microvm/guest/enter/main.
type Agent struct{ Init, Enter []byte }

func (a Agent) check() error {
	if len(a.Init) == 0 || len(a.Enter) == 0 {
		return errors.New("there is no guest agent: this program was built without it; build it with make build")
	}
	return nil
}
