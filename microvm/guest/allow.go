package guest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/microvm/wire"
)

// hostKernelCapabilities are what a container may have whose kernel is the host's: container runtimes' default, and
// two that the namespaces confine. With others it would be root on the host: with SYS_ADMIN at once, with SYS_PTRACE
// by what a process of its own is before it has dropped its privileges.
var hostKernelCapabilities = strings.Fields(`CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT KILL
	AUDIT_WRITE NET_ADMIN IPC_LOCK`)

// hostKernelSysctls begin the names of those that each set of namespaces has to itself: kubelet's list.
var hostKernelSysctls = []string{"net.", "kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."}

// allows says what a pod cannot have as a whole because the kernel is the host's.
func (g *ground) allows(spec wire.Pod) error {
	for name := range spec.Sysctls {
		if !slices.ContainsFunc(hostKernelSysctls, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			return fmt.Errorf("sysctl %s is of the host's whole kernel, which a pod in namespaces shares: run the pod in a virtual machine (engine KVM or TCG)", name)
		}
	}
	return nil
}

// allowsContainer says the same of a container.
func (g *ground) allowsContainer(c wire.Container) error {
	if g == nil {
		return nil
	}
	const instead = "in namespaces that is root on the host: run the pod in a virtual machine (engine KVM or TCG)"
	if c.Privileged {
		return fmt.Errorf("container %s is privileged: %s", c.Name, instead)
	}
	for _, capability := range c.Capabilities {
		if !slices.Contains(hostKernelCapabilities, capability) {
			return fmt.Errorf("container %s has capability %s: %s", c.Name, capability, instead)
		}
	}
	return nil
}
