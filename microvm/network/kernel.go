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

// kernel is the kernel's settings and tables under /proc, of the network namespace this process is in.
type kernel struct{ proc string }

// links are the names of microVMs' interfaces, other clusters' on this machine included: each looks after its own.
var links = regexp.MustCompile(`^nl[0-9a-f]{8}(-([0-9a-f]+|x))?$`)

// waysOut are the other interfaces that the main table's routes lead to. Lines of /proc/net/route begin with the
// interface.
func (k kernel) waysOut() ([]string, error) {
	b, err := os.ReadFile(filepath.Join(k.proc, "net/route"))
	if err != nil {
		return nil, fmt.Errorf("read the machine's routes: %w", err)
	}
	var names []string
	for _, line := range strings.Split(string(b), "\n")[1:] { // below the heading
		if field := strings.Fields(line); len(field) > 0 && field[0] != "lo" && !links.MatchString(field[0]) {
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

// forwards says whether the machine forwards packets between all its interfaces: somebody wants it to be a router.
func (k kernel) forwards() (bool, error) { return k.isOn("ipv4/ip_forward") }

func forwardingOf(device string) string { return "ipv4/conf/" + device + "/forwarding" }

// stopForwarding takes back what was switched on for the pods' sake, unless by now all forward: that was somebody else.
func (k kernel) stopForwarding(devices []string) error {
	all, err := k.forwards()
	if err != nil || all {
		return err
	}
	var failed []error
	for _, d := range devices {
		if err := k.set(forwardingOf(d), "0"); err != nil && !errors.Is(err, fs.ErrNotExist) { // an interface may have gone
			failed = append(failed, fmt.Errorf("stop forwarding on %s: %w", d, err))
		}
	}
	return errors.Join(failed...)
}
