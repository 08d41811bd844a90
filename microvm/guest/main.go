// Package guest is the agent inside a microVM: its first process, which turns a bare kernel into the node of one pod.
// It mounts the root disks that the host has attached, runs the pod's containers as a kubelet and a container runtime
// would (init containers, sidecars, restarts, probes, hooks, limits), keeps their logs until the host has stored
// them, and serves exec, attach, port-forward and statistics over the control port (package wire). On hosts without
// virtual machines the agent runs in namespaces of the host; see hostKernel.
//
// All state is in the agent and none on the host, so that a host process can restart without the pod noticing.
//
// The agent is small and statically linked, since it is part of every guest's memory. It imports the standard
// library, x/sys/unix and packages enter and wire.
package guest

import (
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/wire"
)

// Main is the agent's main function. It never returns.
func Main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr,
			"this is the agent of a Nodeless microVM; it runs only as the first process of a guest")
		os.Exit(2)
	}
	if err := agent(); err != nil {
		fmt.Println("nodeless agent:", err) // the console, which the host keeps
	}
	powerOff()
}

// agentScore makes the kernel kill every container before the agent when the guest runs out of memory. The kubelet
// uses the same score.
const agentScore = "-999"

func agent() error {
	if inNamespaces() {
		return agentInNamespaces()
	}
	if err := mountBasics(); err != nil {
		return err
	}
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte(agentScore), 0); err != nil {
		return err
	}
	if err := loadModules(); err != nil {
		return err
	}
	port, err := controlPort()
	if err != nil {
		return err
	}
	a := newSession(nil)
	go a.serve(port)
	<-a.off
	return nil
}

func agentInNamespaces() error {
	h, err := enterNamespaces()
	if err != nil {
		return err
	}
	f := os.NewFile(wire.ControlFD, "control")
	l, err := net.FileListener(f)
	_ = f.Close()
	if err != nil {
		return err
	}
	a := newSession(h)
	go a.accept(l)
	<-a.off
	return nil
}

// powerOff ends the guest. The host runs QEMU with -no-reboot, so that a reset ends QEMU; this works without ACPI. In
// namespaces, the end of the first process ends all others.
func powerOff() {
	if inNamespaces() {
		os.Exit(0)
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	for {
		time.Sleep(time.Hour)
	}
}
