package vmm

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Namespaces runs pods without virtual machines, for machines that cannot run any: the same agent is the first
// process of Linux namespaces instead of a guest's, in the same cgroup and with the same control port. It is no
// security boundary, and its Capabilities say so.
//
// The kernel takes namespaces down when their first process ends, however that comes about: processes, mounts, loop
// devices and network devices go with it.
type Namespaces struct {
	Agent Agent
	// Dir holds the agent's programs. It is private to this user.
	Dir string

	mu      sync.Mutex
	probed  bool
	found   Capabilities
	program agentFiles
}

// agentFiles are the agent's programs as files.
type agentFiles struct{ init, enter string }

const namespacesWarning = "pods run in Linux namespaces of this machine and NOT in virtual machines: they share its kernel, and that is NO SECURITY BOUNDARY. " +
	"A container that breaks out is root here. Run nothing that you would not run as root yourself."

// Probe starts an agent in namespaces and waits for its first word.
func (n *Namespaces) Probe(ctx context.Context) (Capabilities, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.probed {
		return n.found, nil
	}
	if err := n.setUp(); err != nil {
		return Capabilities{}, fmt.Errorf("namespaces: %w", err)
	}
	began := time.Now()
	if err := n.tryOut(ctx); err != nil {
		return Capabilities{}, fmt.Errorf("namespaces: no agent starts in them: %w", err)
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return Capabilities{}, err
	}
	n.found = Capabilities{
		Driver: DriverNamespace, Accelerator: "none", Version: "Linux " + unix.ByteSliceToString(name.Release[:]),
		SharesKernel: true,
		Warning:      namespacesWarning, Boot: time.Since(began),
	}
	n.probed = true
	return n.found, nil
}

// setUp finds what every start needs.
func (n *Namespaces) setUp() error {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return errors.New("they need root: run nodeless as root, or install QEMU, which needs none")
	}
	if len(n.Agent.Init) == 0 || len(n.Agent.Enter) == 0 {
		return errors.New("there is no guest agent: this program was built without it; build it with make build")
	}
	if _, err := version2Root(); err != nil {
		return err
	}
	if err := os.MkdirAll(n.Dir, 0o700); err != nil {
		return err
	}
	for _, p := range []struct {
		name    string
		content []byte
		path    *string
	}{{"init", n.Agent.Init, &n.program.init}, {"enter", n.Agent.Enter, &n.program.enter}} {
		*p.path = filepath.Join(n.Dir, fmt.Sprintf("%s-%x", p.name, sha256.Sum256(p.content)))
		if info, err := os.Stat(*p.path); err == nil && info.Size() == int64(len(p.content)) {
			continue
		}
		if err := writeFileAtomically(*p.path, p.content); err != nil {
			return err
		}
		if err := os.Chmod(*p.path, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// namespacesProbeLimit is how long an agent in namespaces may take to its first word.
const namespacesProbeLimit = 20 * time.Second

func (n *Namespaces) tryOut(ctx context.Context) error {
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return fmt.Errorf("%w: load the kernel module loop (modprobe loop)", err)
	}
	dir, err := os.MkdirTemp(n.Dir, "probe-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	m, err := n.launch(Spec{ID: filepath.Base(dir), Dir: dir, Shape: probeShape})
	if err != nil {
		return err
	}
	defer m.Kill()
	ctx, cancel := context.WithTimeout(ctx, namespacesProbeLimit)
	defer cancel()
	c, err := m.Dial(ctx)
	if err != nil {
		return fmt.Errorf("%w %s", err, m.LastWords())
	}
	return c.Close()
}

// Prepare has nothing to prepare: a start takes milliseconds.
func (n *Namespaces) Prepare(context.Context, Shape) error { return nil }

// Start starts an agent in namespaces of its own.
func (n *Namespaces) Start(ctx context.Context, spec Spec) (*Machine, bool, error) {
	if _, err := n.Probe(ctx); err != nil {
		return nil, false, err
	}
	m, err := n.launch(spec)
	if err != nil {
		return nil, false, fmt.Errorf("machine %s: %w", spec.ID, err)
	}
	return m, false, nil
}
