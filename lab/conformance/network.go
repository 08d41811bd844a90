package main

import (
	"fmt"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/lab/process"
)

// ownNetwork gives a child process its own network and host name, and its own process group, so that Ctrl-C reaches
// only the parent. Without root, it uses a user namespace.
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
// addresses. It is assigned to lo, where nobody outside the namespace can reach it.
var controllerIP = netip.MustParseAddr("10.99.0.1")

// takeName sets the host name to that of the controller's pod, as inside a pod: leader election uses it as identity.
func takeName() error {
	if err := unix.Sethostname([]byte(podName)); err != nil {
		return fmt.Errorf("host name %s: %w", podName, err)
	}
	return nil
}

// raiseLoopback brings lo up and adds the controller's address to it.
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
