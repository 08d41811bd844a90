// Package vmm starts, finds again and ends the virtual machines of pods. A Driver is one way to run them; QEMU's
// microvm machine is the one there is for machines of our own, with KVM where a guest really boots with it and with
// pure emulation (TCG) otherwise. Where there can be no virtual machines Namespaces does without.
//
// A machine is a process in a session and, where cgroups can be written, a cgroup of its own. It does not need the
// process that started it: a later one finds it again by its state directory. Nothing outlives it: its network tap is
// open in that process alone, its other files are in the directory.
package vmm

import (
	"context"
	"errors"
	"os"
	"time"
)

// ErrNoKernel and its kin say what a machine lacks to run virtual machines; the message says how to get it.
var (
	ErrNoKernel = errors.New("no guest kernel")
	ErrNoVMM    = errors.New("no virtual machine monitor")
)

// Shape is what a guest is given. Templates are made per shape.
type Shape struct {
	CPUs      int
	MemoryMiB int
}

// MaxDisks is how many disks a machine can have: QEMU's microvm has eight device slots, of which the control port and
// the network take two.
const MaxDisks = 6

// Disk of a machine: a raw image file.
type Disk struct {
	Path     string
	Serial   string // at most 20 bytes
	ReadOnly bool
}

// Spec is a machine to be started.
type Spec struct {
	ID    string
	Dir   string // its state directory, which exists and is the machine's alone
	Shape Shape
	Disks []Disk
	// Tap is an open tap interface, which the caller closes after the start. It goes with the machine's process.
	Tap *os.File
	// UserNet is a network for which no privileges are needed, in place of Tap. nil: the machine reaches nothing.
	UserNet *UserNet
	// Link gives the network namespace of a process its device eth0; for drivers whose Capabilities say SharesKernel,
	// instead of the two above. nil: there is none.
	Link func(pid int) error
}

// Names of drivers.
const (
	DriverQEMU      = "qemu"
	DriverNamespace = "namespace"
)

// Capabilities of a driver on this machine.
type Capabilities struct {
	Driver      string // DriverQEMU, DriverNamespace
	Accelerator string // "kvm", "tcg", "none"
	Version     string // of the VMM
	// SecurityBoundary is whether a guest is kept from the host by hardware.
	SecurityBoundary bool
	// SharesKernel: there are no virtual machines, what runs shares this machine's kernel.
	SharesKernel bool
	// Warning is to be said to the user, loudly; "" when there is nothing to say.
	Warning string
	// Boot is how long the probe guest took to its agent's first word.
	Boot time.Duration
}

// Driver is one way to run machines. Its methods may be used by many goroutines.
type Driver interface {
	// Probe finds out what the driver can do here by booting a guest. It is remembered; call it before anything else.
	Probe(ctx context.Context) (Capabilities, error)
	// Prepare makes a template of the shape, if there is none, so that Start restores instead of booting.
	Prepare(ctx context.Context, shape Shape) error
	// Start starts a machine and returns when its process runs. fromTemplate says how.
	Start(ctx context.Context, spec Spec) (m *Machine, fromTemplate bool, err error)
}
