package network

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/microvm/network/ruleset"
)

// look makes the machine forward the pods' packets and gives the kernel its rules. Interfaces come and go, and others
// rewrite the firewall: it is done again and again, and does nothing where all is as it should be.
func (n *Net) look() error {
	failed := n.connect()
	if failed != nil && failed.Error() == n.apart {
		failed = nil // it was said
	} else {
		n.apart = fmt.Sprint(failed)
	}
	if err := n.forward(); err != nil {
		return errors.Join(failed, err)
	}
	n.warn()
	return errors.Join(failed, n.program())
}

// forward switches forwarding on where it is needed: on the bridge and where packets leave. The machine as a whole
// does not become a router: that would also lead others through it.
func (n *Net) forward() error {
	if err := n.kernel.set(forwardingOf(n.name), "1"); err != nil {
		return fmt.Errorf("forward the pods' packets: %w", err)
	}
	all, err := n.kernel.forwards()
	if err != nil {
		return fmt.Errorf("forward the pods' packets: %w", err)
	}
	if all { // somebody else's business, then, and their firewall's
		return n.setOpened(nil)
	}
	devices, err := n.kernel.waysOut()
	if err != nil {
		return err
	}
	opened := n.state.Opened
	var toOpen []string
	for _, d := range devices {
		on, err := n.kernel.isOn(forwardingOf(d))
		if err == nil && !on {
			toOpen = append(toOpen, d)
		}
	}
	for _, d := range toOpen {
		if !slices.Contains(opened, d) {
			opened = append(slices.Clone(opened), d)
		}
	}
	if err := n.setOpened(opened); err != nil { // before it is done: who comes later must know
		return err
	}
	for _, d := range toOpen {
		// The rules that close it to all but the pods come first.
		if err := n.program(); err != nil {
			return err
		}
		if err := n.kernel.set(forwardingOf(d), "1"); err != nil {
			return fmt.Errorf("forward the pods' packets out of %s: %w", d, err)
		}
	}
	return nil
}

// setOpened notes the interfaces that forward for the pods' sake.
func (n *Net) setOpened(names []string) error {
	if slices.Equal(n.state.Opened, names) {
		return nil
	}
	n.state.Opened = names
	if err := n.state.save(n.o.Dir); err != nil {
		return fmt.Errorf("note the interfaces that forward: %w", err)
	}
	return nil
}

// program gives the kernel the rules if it does not have them.
func (n *Net) program() error {
	rules := ruleset.New(n.config())
	text := rules.String()
	if n.written == text && ruleset.Exists(n.name) {
		return nil
	}
	n.written = ""
	if err := rules.Program(); err != nil {
		return err
	}
	n.written = text
	return nil
}

// config is what the rules are made from.
func (n *Net) config() ruleset.Config {
	return ruleset.Config{
		Table: n.name, Links: n.name, Pods: n.pods, Host: n.machine, Services: n.o.Services, Opened: n.state.Opened,
		Near: prefixes(n.seen.near), Tunnel: n.tunnelRules(), Overlay: n.seen.networks,
		Destinations: n.destinations(n.snapshot.Load()),
		NodePorts:    nodePorts(n.snapshot.Load(), n.reaches, n.pods.Contains), Public: n.o.Joined,
	}
}

// warn tells once of other firewalls in the pods' way.
func (n *Net) warn() {
	chains, err := ruleset.OthersDropping(n.name)
	if err != nil {
		n.o.Log.Warn("it is not known whether another firewall drops the pods' packets", "error", err)
		return
	}
	if now := strings.Join(chains, ", "); now != n.warned {
		if n.warned = now; now != "" {
			more := []any{"chains", now, "interfaces", n.name + "*", "pods", n.pods}
			if n.o.Peers != nil {
				more = append(more, "from other hosts", fmt.Sprintf("udp port %d", n.o.At.Port()))
			}
			n.o.Log.Warn("another firewall drops packets that it does not know, perhaps the pods': let those from and to the pods' interfaces pass there", more...)
		}
	}
}
