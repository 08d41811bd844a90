package network

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// forward enables forwarding where pods need it: on the bridge and the uplinks. It does not make the instance a
// router, which would forward other packets, too.
func (n *Net) forward() error {
	if err := n.kernel.set(forwardingOf(n.name), "1"); err != nil {
		return fmt.Errorf("forward the pods' packets: %w", err)
	}
	all, err := n.kernel.forwards()
	if err != nil {
		return fmt.Errorf("forward the pods' packets: %w", err)
	}
	if all { // guarding a router is its administrator's task
		return n.setOpened(nil)
	}
	uplinks, err := n.kernel.uplinks()
	if err != nil {
		return err
	}
	opened := slices.Clone(n.state.Opened)
	var toOpen []string
	for _, device := range uplinks {
		if on, err := n.kernel.isOn(forwardingOf(device)); err != nil || on {
			continue
		}
		toOpen = append(toOpen, device)
		if !slices.Contains(opened, device) {
			opened = append(opened, device)
		}
	}
	if err := n.setOpened(opened); err != nil {
		return err
	}
	for _, device := range toOpen {
		// The rules come first: they keep all but the pods' packets out.
		if err := n.program(); err != nil {
			return err
		}
		if err := n.kernel.set(forwardingOf(device), "1"); err != nil {
			return fmt.Errorf("forward the pods' packets out of %s: %w", device, err)
		}
	}
	return nil
}

// setOpened records the interfaces on which forwarding is enabled for pods only.
func (n *Net) setOpened(names []string) error {
	if slices.Equal(n.state.Opened, names) {
		return nil
	}
	n.state.Opened = names
	if err := n.state.save(n.o.Dir); err != nil {
		return fmt.Errorf("record the interfaces that forward: %w", err)
	}
	return nil
}

// kernel reads and writes the settings of this process's network namespace below /proc.
type kernel struct{ proc string }

// podLinks matches the interfaces of microVMs, including those of other clusters on this instance, whose forwarding
// is enabled separately.
var podLinks = regexp.MustCompile(`^nl[0-9a-f]{8}(-([0-9a-f]+|x))?$`)

// uplinks returns all other interfaces in the main table's routes, sorted.
func (k kernel) uplinks() ([]string, error) {
	b, err := os.ReadFile(filepath.Join(k.proc, "net/route"))
	if err != nil {
		return nil, fmt.Errorf("read the machine's routes: %w", err)
	}
	var names []string
	for _, line := range strings.Split(string(b), "\n")[1:] { // after the header; lines begin with the interface
		if field := strings.Fields(line); len(field) > 0 && field[0] != "lo" && !podLinks.MatchString(field[0]) {
			names = append(names, field[0])
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func (k kernel) setting(name string) string { return filepath.Join(k.proc, "sys/net", name) }

func (k kernel) isOn(name string) (bool, error) {
	b, err := os.ReadFile(k.setting(name))
	return strings.TrimSpace(string(b)) != "0", err
}

func (k kernel) set(name, value string) error {
	return os.WriteFile(k.setting(name), []byte(value), 0o644)
}

// forwards reports whether the instance is a router: it forwards between all its interfaces.
func (k kernel) forwards() (bool, error) { return k.isOn("ipv4/ip_forward") }

func forwardingOf(device string) string { return "ipv4/conf/" + device + "/forwarding" }

// stopForwarding disables forwarding where it was enabled for pods, unless the instance has been made a router since.
func (k kernel) stopForwarding(devices []string) error {
	all, err := k.forwards()
	if err != nil || all {
		return err
	}
	var failed []error
	for _, d := range devices {
		if err := k.set(forwardingOf(d), "0"); err != nil && !errors.Is(err, fs.ErrNotExist) { // the interface may be gone
			failed = append(failed, fmt.Errorf("stop forwarding on %s: %w", d, err))
		}
	}
	return errors.Join(failed...)
}
