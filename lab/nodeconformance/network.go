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

// insideVariable is set in the process that is in a network namespace of its own.
const insideVariable = "NODECONFORM_INSIDE"

// enterOwnNetwork runs this program again in a network of its own, where nothing but the cluster is: what is sent to
// the addresses of simulated nodes does not leave the machine.
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

// furnishNetwork makes the own network usable.
func furnishNetwork() error {
	if err := process.RaiseLoopback(); err != nil {
		return err
	}
	// Simulated nodes have no kube-proxy: their node ports are this instance's.
	if out, err := exec.Command("ip", "route", "add", "local", nodes, "dev", "lo").CombinedOutput(); err != nil {
		return fmt.Errorf("take the addresses of simulated nodes: %w: %s", err, out)
	}
	return nil
}

// nodes are the addresses of the subnets in which the region has nodes.
const nodes = "10.0.0.0/13"
