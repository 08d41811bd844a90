package main

import (
	"fmt"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/lab/process"
)

// ownNetwork gives a child process a network and a host name of its own, and a process group, so that Ctrl-C reaches
// only us. Whoever is not root gets there through a user namespace.
func ownNetwork() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS, Setpgid: true,
		Pdeathsig: syscall.SIGTERM,
	}
	if os.Geteuid() != 0 {
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return a
}

// controllerIP is the address of the controller's node and pod, since the API server refuses to proxy to loopback
// addresses. It is put on lo, where nobody outside the namespace can reach it.
var controllerIP = netip.MustParseAddr("10.99.0.1")

// takeName makes the host's name that of the controller's pod, as it is in a pod: leader election signs with it.
func takeName() error {
	if err := unix.Sethostname([]byte(podName)); err != nil {
		return fmt.Errorf("host name %s: %w", podName, err)
	}
	return nil
}

// raiseLoopback brings lo up and gives it the controller's address beside its own.
func raiseLoopback() error {
	if err := process.RaiseLoopback(); err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("address %s on lo: %w", controllerIP, err)
	}
	defer unix.Close(fd)
	alias, err := unix.NewIfreq("lo:1")
	if err != nil {
		return fmt.Errorf("address %s on lo: %w", controllerIP, err)
	}
	ip := controllerIP.As4()
	if err := alias.SetInet4Addr(ip[:]); err != nil {
		return fmt.Errorf("address %s on lo: %w", controllerIP, err)
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFADDR, alias); err != nil {
		return fmt.Errorf("address %s on lo: %w", controllerIP, err)
	}
	return nil
}
