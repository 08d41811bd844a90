// Package guest is the agent inside a microVM: its first process, which makes of a bare kernel the node of one pod
// (or, where there are no virtual machines, of namespaces of the host: see ground). It mounts the root disks the host
// gave it, runs the pod's containers as a kubelet and a container runtime would (init containers, sidecars, restarts,
// probes, hooks, limits), keeps what they log until the host has stored it, and serves exec, attach, port-forward and
// statistics over the control port (package wire).
//
// All of its state is here and none on the host, so that a host process may end and come back without the pod noticing.
//
// The agent is linked statically and small: it is part of every guest's memory. It imports the standard library,
// x/sys/unix and package wire.
package guest

import (
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/wire"
)

// Main is the agent's main function; it never returns.
func Main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "this is the agent of a Nodeless microVM; it runs as the first process of a guest and nowhere else")
		os.Exit(2)
	}
	if err := agent(); err != nil {
		fmt.Println("nodeless agent:", err) // the console, which the host keeps
	}
	powerOff()
}

func agent() error {
	if inNamespaces() {
		return agentInNamespaces()
	}
	if err := mountBasics(); err != nil {
		return err
	}
	args, err := bootArguments()
	if err != nil {
		return err
	}
	if err := loadModules(); err != nil {
		return err
	}
	if args["nodeless.panic"] != "" { // a fault test
		_ = os.WriteFile("/proc/sysrq-trigger", []byte("c"), 0)
	}
	port, err := controlPort()
	if err != nil {
		return err
	}
	a := &session{processes: newProcesses(), off: make(chan struct{})}
	go a.serve(port)
	<-a.off
	return nil
}

func agentInNamespaces() error {
	g, err := standOnHost()
	if err != nil {
		return err
	}
	f := os.NewFile(wire.ControlFD, "control")
	l, err := net.FileListener(f)
	_ = f.Close()
	if err != nil {
		return err
	}
	a := &session{processes: newProcesses(), ground: g, off: make(chan struct{})}
	go a.accept(l)
	<-a.off
	return nil
}

// powerOff ends the guest: the host runs the VMM with -no-reboot, so that a reset is the end. It works without ACPI.
// In namespaces the end of their first process is that of all.
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
