package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/nodeless/nodeless/lab/process"
)

// insideVariable is set in the process that runs in its own network namespace.
const insideVariable = "NODECONFORM_INSIDE"

// enterOwnNetwork runs this program again in its own network namespace, which contains only the cluster: packets to
// the addresses of simulated nodes do not leave the machine.
func enterOwnNetwork(ctx context.Context, args []string) error {
	if os.Geteuid() != 0 {
		return errors.New("microVMs reach each other over a bridge, which only root may make: run it as root")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, self, args...)
	c.Env = append(os.Environ(), insideVariable+"=1")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := c.Run(); err != nil {
		return errors.New("not all is as expected: see above")
	}
	return nil
}

// furnishNetwork sets up the network namespace.
func furnishNetwork() error {
	if err := process.RaiseLoopback(); err != nil {
		return err
	}
	// Simulated nodes have no kube-proxy: this machine serves their node ports.
	if out, err := exec.Command("ip", "route", "add", "local", nodes, "dev", "lo").CombinedOutput(); err != nil {
		return fmt.Errorf("take the addresses of simulated nodes: %w: %s", err, out)
	}
	return nil
}

// nodes is the range of the subnets in which the region has nodes.
const nodes = "10.0.0.0/13"
