package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/guest/enter"
	"github.com/nodeless/nodeless/microvm/wire"
)

// hostKernel is the environment of an agent in namespaces of a host, whose kernel it must not change. It is nil for an
// agent with a kernel of its own, in a virtual machine.
type hostKernel struct {
	wire.Environment
	// version1 are the mount points of version 1 cgroup hierarchies, by controller; none with version 2 alone.
	version1 map[string]string
}

// version1Base holds the hierarchies of cgroup version 1.
const version1Base = "/cgroup.v1"

// environmentVariable passes the environment on when the agent executes itself again.
const environmentVariable = "NODELESS_ENVIRONMENT"

// inNamespaces reports whether the agent was started in namespaces of a host.
func inNamespaces() bool { return len(os.Args) > 2 && os.Args[2] == wire.NamespacesArgument }

// enterNamespaces makes the agent's root, apart from the host's, and executes the agent again in it, because threads
// that the Go runtime started earlier are still in the host's cgroup namespace. In the second execution it returns
// the environment.
func enterNamespaces() (*hostKernel, error) {
	runtime.LockOSThread() // each thread has its own cgroup namespace, and Exec keeps that of its thread
	defer runtime.UnlockOSThread()
	if encoded, ok := os.LookupEnv(environmentVariable); ok {
		return newHostKernel(encoded)
	}
	f := os.NewFile(wire.EnvironmentFD, "environment")
	encoded, _ := io.ReadAll(f) // incomplete if it fails
	_ = f.Close()
	var e wire.Environment
	if err := json.Unmarshal(encoded, &e); err != nil {
		return nil, fmt.Errorf("read the environment from the host (it may have ended): %w", err)
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return nil, fmt.Errorf("leave the host's cgroup namespace: %w", err)
	}
	if err := leaveHost(e); err != nil {
		return nil, err
	}
	return nil, unix.Exec("/proc/self/exe", os.Args, []string{environmentVariable + "=" + string(encoded)})
}

// leaveHost replaces the host's root with an empty file system that contains only the program of package enter.
func leaveHost(e wire.Environment) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("leave the host's mount propagation: %w", err)
	}
	if err := enter.MountFS("tmpfs", e.Root, "tmpfs", enter.NoDevices, "mode=0755,size=1m"); err != nil {
		return err
	}
	program := filepath.Join(e.Root, enterProgram)
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(e.Enter, program, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", e.Enter, err)
	}
	// Containers can reach it through /proc/PID/exe, and all pods of the host use it.
	if err := enter.ReadOnly(program, 0); err != nil {
		return err
	}
	for _, dir := range []string{"dev", "devices", "disks", "pod", "proc", "root", "scratch", "sys"} {
		if err := os.Mkdir(filepath.Join(e.Root, dir), 0o755); err != nil {
			return err
		}
	}
	return errors.Join(enter.PivotRoot(e.Root), enter.MountFS("proc", "/proc", "proc", enter.DataOnly, ""))
}

// newHostKernel mounts what the agent needs, in its second execution.
func newHostKernel(encoded string) (*hostKernel, error) {
	h := &hostKernel{version1: map[string]string{}}
	if err := json.Unmarshal([]byte(encoded), &h.Environment); err != nil {
		return nil, err
	}
	_ = os.Unsetenv(environmentVariable)
	unix.CloseOnExec(wire.ControlFD)
	for _, d := range h.Disks {
		unix.CloseOnExec(d.FD)
	}
	if err := errors.Join(
		enter.MountFS("sysfs", "/sys", "sysfs", enter.DataOnly, ""),
		mountDev(),
		enter.MountFS("tmpfs", enter.DevicesDir, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=0755,size=64k"),
		enter.MountFS("tmpfs", enter.PodDir, "tmpfs", enter.NoDevices, "mode=0755"),
		enter.MakeDevices(enter.DevicesDir),
		h.mountCgroups(),
	); err != nil {
		return nil, err
	}
	// When the pod runs out of memory, the kernel should kill a container and not the agent. A host that is a container
	// itself may not allow this; then containers are killed first because of the score that package enter gives them.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("-998"), 0)
	return h, nil
}

// mountCgroups mounts the pod's own cgroups, the only ones visible in the cgroup namespace. The agent moves into a
// child group, since a group that enables controllers for its children cannot have processes.
func (h *hostKernel) mountCgroups() error {
	if err := enter.MountFS("cgroup2", cgroupDir, "cgroup2", enter.DataOnly, ""); err != nil {
		return err
	}
	own := filepath.Join(cgroupDir, "agent")
	if err := errors.Join(os.Mkdir(own, 0o755),
		os.WriteFile(filepath.Join(own, "cgroup.procs"), []byte("0"), 0)); err != nil {
		return fmt.Errorf("make the agent's cgroup: %w", err)
	}
	if len(h.Controllers) == 0 {
		return enableControllers(cgroupDir)
	}
	for _, controllers := range h.Controllers {
		at := filepath.Join(version1Base, controllers)
		if err := enter.MountFS("cgroup", at, "cgroup", enter.DataOnly, controllers); err != nil {
			return err
		}
		for _, c := range strings.Split(controllers, ",") {
			h.version1[c] = at
		}
	}
	return nil
}

// namespacesCapabilities are the capabilities that a container may have with the host's kernel: the default of
// container runtimes, and two that the namespaces confine. Others would make it root on the host: SYS_ADMIN at once,
// SYS_PTRACE through one of its own processes that has not dropped its privileges yet.
var namespacesCapabilities = strings.Fields(`CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP
	SETPCAP NET_BIND_SERVICE SYS_CHROOT KILL AUDIT_WRITE NET_ADMIN IPC_LOCK`)

// namespacedSysctls are the prefixes of sysctls that each set of namespaces has of its own, as listed by kubelet.
var namespacedSysctls = []string{"net.", "kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."}

// allows returns an error if the pod needs something that the host's kernel cannot provide.
func (h *hostKernel) allows(spec wire.Pod) error {
	for name := range spec.Sysctls {
		if !slices.ContainsFunc(namespacedSysctls, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			return fmt.Errorf("sysctl %s is of the host's whole kernel, which a pod in namespaces shares: "+
				"run the pod in a virtual machine (engine KVM or TCG)", name)
		}
	}
	return nil
}

// allowsContainer returns an error if the container would gain rights over the host.
func (h *hostKernel) allowsContainer(c wire.Container) error {
	if h == nil {
		return nil
	}
	const instead = "in namespaces that is root on the host: run the pod in a virtual machine (engine KVM or TCG)"
	if c.Privileged {
		return fmt.Errorf("container %s is privileged: %s", c.Name, instead)
	}
	for _, capability := range c.Capabilities {
		if !slices.Contains(namespacesCapabilities, capability) {
			return fmt.Errorf("container %s has capability %s: %s", c.Name, capability, instead)
		}
	}
	return nil
}

// attachDisks attaches the host's disk images to loop devices, which it returns by serial. Mount them before calling
// release: a device is detached when its last user closes it.
func (h *hostKernel) attachDisks(wanted []string) (devices map[string]string, release func(), err error) {
	devices = map[string]string{}
	var open []*os.File
	release = func() {
		for _, f := range open {
			_ = f.Close()
		}
	}
	for _, d := range h.Disks {
		if !slices.Contains(wanted, d.Serial) {
			continue
		}
		f, err := enter.AttachLoop(uintptr(d.FD), d.ReadOnly)
		if err != nil {
			release()
			return nil, nil, fmt.Errorf("disk %q: %w", d.Serial, err)
		}
		open = append(open, f)
		devices[d.Serial] = f.Name()
		_ = unix.Close(d.FD) // the loop device holds the image
	}
	return devices, release, nil
}
