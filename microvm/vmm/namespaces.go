package vmm

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/internal/kit/atomicfile"
	"github.com/nodeless/nodeless/microvm/wire"
)

// Namespaces runs pods without virtual machines, on hosts that cannot run them. The guest's agent is the first
// process of new Linux namespaces, with the same cgroup and control port as a VM's process. It is no security
// boundary, as its Capabilities warn.
//
// When the first process ends, for whatever reason, the kernel removes the namespaces and with them all processes,
// mounts, loop devices and network devices.
type Namespaces struct {
	Agent Agent
	// Dir holds the agent's programs. It is private to this user.
	Dir string

	once        sync.Once
	found       Capabilities
	foundErr    error
	init, enter string // the agent's programs as files
}

const namespacesWarning = "pods run in Linux namespaces of this machine and NOT in virtual machines: they share its " +
	"kernel, and that is NO SECURITY BOUNDARY. A container that breaks out is root here. Run nothing that you would not " +
	"run as root yourself."

// namespacesProbeLimit is how long an agent in namespaces may take to answer.
const namespacesProbeLimit = 20 * time.Second

// Probe implements Driver: it starts an agent in namespaces.
func (n *Namespaces) Probe(ctx context.Context) (Capabilities, error) {
	n.once.Do(func() {
		if n.found, n.foundErr = n.probe(ctx); n.foundErr != nil {
			n.foundErr = fmt.Errorf("namespaces: %w", n.foundErr)
		}
	})
	return n.found, n.foundErr
}

func (n *Namespaces) probe(ctx context.Context) (Capabilities, error) {
	if err := n.setUp(); err != nil {
		return Capabilities{}, err
	}
	began := time.Now()
	if err := n.startProbe(ctx); err != nil {
		return Capabilities{}, fmt.Errorf("the guest agent does not start in them: %w", err)
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return Capabilities{}, err
	}
	return Capabilities{
		Driver: "namespace", Accelerator: "none", Version: "Linux " + unix.ByteSliceToString(name.Release[:]),
		SharesKernel: true, Warning: namespacesWarning, Boot: time.Since(began),
	}, nil
}

// setUp checks the host and writes the agent's programs.
func (n *Namespaces) setUp() error {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return errors.New("they need root: run nodeless as root, or install QEMU, which needs none")
	}
	if err := n.Agent.check(); err != nil {
		return err
	}
	if _, err := version2Root(); err != nil {
		return err
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return fmt.Errorf("%w: load the kernel module loop (modprobe loop)", err)
	}
	if err := os.MkdirAll(n.Dir, 0o700); err != nil {
		return err
	}
	for _, p := range []struct {
		name    string
		content []byte
		path    *string
	}{{"init", n.Agent.Init, &n.init}, {"enter", n.Agent.Enter, &n.enter}} {
		*p.path = filepath.Join(n.Dir, fmt.Sprintf("%s-%x", p.name, sha256.Sum256(p.content)))
		if info, err := os.Stat(*p.path); err == nil && info.Size() == int64(len(p.content)) {
			continue
		}
		if err := errors.Join(atomicfile.Write(*p.path, p.content), os.Chmod(*p.path, 0o755)); err != nil {
			return err
		}
	}
	return nil
}

func (n *Namespaces) startProbe(ctx context.Context) error {
	dir, err := os.MkdirTemp(n.Dir, "probe-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	p, err := n.launch(Spec{ID: filepath.Base(dir), Dir: dir, Shape: probeShape})
	if err != nil {
		return err
	}
	defer p.Kill()
	return p.probeAgent(ctx, namespacesProbeLimit)
}

// Prepare implements Driver. There is nothing to prepare: a start takes milliseconds.
func (n *Namespaces) Prepare(context.Context, Shape) error { return nil }

// Start implements Driver.
func (n *Namespaces) Start(ctx context.Context, spec Spec) (*Process, bool, error) {
	if _, err := n.Probe(ctx); err != nil {
		return nil, false, err
	}
	p, err := n.launch(spec)
	if err != nil {
		return nil, false, fmt.Errorf("VM %s: %w", spec.ID, err)
	}
	return p, false, nil
}

// launch starts an agent in new namespaces. The agent waits for its environment: if this process ends first, the
// agent ends, too.
func (n *Namespaces) launch(spec Spec) (_ *Process, err error) {
	dir, err := filepath.Abs(spec.Dir)
	if err != nil {
		return nil, err
	}
	var open []*os.File
	defer func() {
		for _, f := range open {
			_ = f.Close()
		}
	}()
	keep := func(f *os.File, openErr error) *os.File {
		if openErr == nil {
			open = append(open, f)
		}
		err = errors.Join(err, openErr)
		return f
	}
	environmentR, environmentW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	open = append(open, environmentR, environmentW)
	log, control := keep(openLog(dir)), keep(listenControl(dir))
	inherited := []*os.File{environmentR, control}
	environment := wire.Environment{Root: filepath.Join(dir, "root"), Enter: n.enter}
	for _, d := range spec.Disks {
		mode := os.O_RDWR
		if d.ReadOnly {
			mode = os.O_RDONLY
		}
		environment.Disks = append(environment.Disks,
			wire.EnvironmentDisk{Serial: d.Serial, FD: 3 + len(inherited), ReadOnly: d.ReadOnly})
		inherited = append(inherited, keep(os.OpenFile(d.Path, mode, 0)))
	}
	if err := errors.Join(err, os.MkdirAll(environment.Root, 0o700)); err != nil {
		return nil, err
	}
	g, controllers, err := podGroup(spec)
	if err != nil {
		return nil, err
	}
	environment.Controllers = controllers
	p, err := spawn(n.command(dir, log, inherited), (*exec.Cmd).Start, spec.ID, dir, g)
	if err != nil {
		return nil, err
	}
	if spec.Link != nil {
		err = spec.Link(p.PID())
	}
	if err == nil {
		err = json.NewEncoder(environmentW).Encode(environment)
	}
	if err != nil {
		p.Kill()
		return nil, fmt.Errorf("%w %s", err, strings.TrimSpace(p.LastWords()))
	}
	return p, nil
}

// command returns the agent's command. Inherited files have descriptors from 3 on.
func (n *Namespaces) command(dir string, log *os.File, inherited []*os.File) *exec.Cmd {
	return &exec.Cmd{
		Path: n.init, Args: []string{processMark, dir, wire.NamespacesArgument}, Dir: dir, Env: []string{},
		Stdout: log, Stderr: log, ExtraFiles: inherited,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS |
			unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWNET},
	}
}

// podGroup creates the cgroup that limits a pod, since no virtual machine does.
func podGroup(spec Spec) (group, []string, error) {
	g, controllers, err := makeGroup(spec.ID, podLimits(spec.Shape))
	if err == nil && !g.has("cgroup.kill") {
		err = errors.New("this kernel cannot kill a container with all its processes (cgroup.kill): " +
			"Linux 5.14 or newer is needed")
	}
	if err != nil {
		g.remove()
	}
	return g, controllers, err
}

// podLimits returns the limits of a shape, plus what the agent needs.
func podLimits(s Shape) limits {
	const agentMiB = 32
	return limits{memoryMiB: s.MemoryMiB + agentMiB, cpu: s.CPUs * 100_000, processes: 4096}
}

// listenControl creates the control port's socket. Its path may be too long for a socket address.
func listenControl(dir string) (*os.File, error) {
	path := filepath.Join(dir, controlFile)
	_ = os.Remove(path)
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	l, err := net.ListenUnix("unix",
		&net.UnixAddr{Name: fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), controlFile), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("make the control socket: %w", err)
	}
	l.SetUnlinkOnClose(false)
	defer func() { _ = l.Close() }()
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, err
	}
	return l.File()
}
