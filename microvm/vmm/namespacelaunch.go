package vmm

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/wire"
)

// launch starts the agent, which waits until it is told what it stands on: if this process ends before, it ends too.
func (n *Namespaces) launch(spec Spec) (_ *Machine, err error) {
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
	keep := func(f *os.File, err error) error {
		if err == nil {
			open = append(open, f)
		}
		return err
	}
	log, err := os.OpenFile(filepath.Join(dir, vmmLogFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err := keep(log, err); err != nil {
		return nil, err
	}
	toldR, toldW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	open = append(open, toldR, toldW)
	control, err := listenControl(dir)
	if err := keep(control, err); err != nil {
		return nil, err
	}
	inherit := []*os.File{toldR, control}
	g, disks, err := n.ground(dir, spec.Disks, 3+len(inherit))
	open = append(open, disks...)
	if err != nil {
		return nil, err
	}
	inherit = append(inherit, disks...)
	group, controllers, err := groupOf(spec)
	if err != nil {
		return nil, err
	}
	g.Controllers = controllers
	process, err := n.startAgent(dir, log, inherit)
	if err != nil {
		group.remove()
		return nil, fmt.Errorf("start an agent in namespaces: %w", err)
	}
	return settle(spec, dir, group, process, func() error {
		if spec.Link != nil {
			if err := spec.Link(process.Pid); err != nil {
				return err
			}
		}
		if err := json.NewEncoder(toldW).Encode(g); err != nil {
			return fmt.Errorf("tell the agent what it stands on: %w", err)
		}
		return nil
	})
}

// startAgent starts the agent in new namespaces, with files from number 3 on.
func (n *Namespaces) startAgent(dir string, log *os.File, files []*os.File) (*os.Process, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	cmd := &syscall.ProcAttr{
		Dir: dir, Env: []string{}, Files: []uintptr{null.Fd(), log.Fd(), log.Fd()},
		Sys: &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWUTS |
			unix.CLONE_NEWIPC | unix.CLONE_NEWNET},
	}
	for _, f := range files {
		cmd.Files = append(cmd.Files, f.Fd())
	}
	return startProcess(n.program.init, []string{processMark, dir, wire.GroundArgument}, cmd)
}

// ground is what the agent will stand on. The disks are open, and the first will be the agent's file number fd; they
// are to be closed, also when there is an error.
func (n *Namespaces) ground(dir string, disks []Disk, fd int) (g wire.Ground, open []*os.File, err error) {
	g = wire.Ground{Root: filepath.Join(dir, "root"), Enter: n.program.enter}
	if err := os.Mkdir(g.Root, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return g, nil, err
	}
	for i, d := range disks {
		mode := os.O_RDWR
		if d.ReadOnly {
			mode = os.O_RDONLY
		}
		f, err := os.OpenFile(d.Path, mode, 0)
		if err != nil {
			return g, open, err
		}
		open = append(open, f)
		g.Disks = append(g.Disks, wire.GroundDisk{Serial: d.Serial, FD: fd + i, ReadOnly: d.ReadOnly})
	}
	return g, open, nil
}

// groupOf makes the pod's cgroup, which bounds it since there is no virtual machine that would.
func groupOf(spec Spec) (group, []string, error) {
	group, controllers, err := makeGroup(spec.ID, podBounds(spec.Shape))
	if err == nil && !group.has("cgroup.kill") {
		err = errors.New("this kernel cannot kill a container with all its processes (cgroup.kill): Linux 5.14 or newer is needed")
	}
	if err != nil {
		group.remove()
	}
	return group, controllers, err
}

// podBounds are a machine's shape and what its agent needs beside it.
func podBounds(s Shape) bounds {
	const agentMiB = 32
	return bounds{memoryMiB: s.MemoryMiB + agentMiB, cpu: s.CPUs * 100_000, processes: 4096}
}

// startProcess starts a program whose first argument is not its path.
func startProcess(path string, args []string, attr *syscall.ProcAttr) (*os.Process, error) {
	pid, err := syscall.ForkExec(path, args, attr)
	if err != nil {
		return nil, err
	}
	return os.FindProcess(pid)
}

// settle puts a process that waits into its cgroup, notes it and lets it go on.
func settle(spec Spec, dir string, g group, process *os.Process, goOn func() error) (*Machine, error) {
	r := record{ID: spec.ID, Driver: DriverNamespace, PID: process.Pid, BootID: bootID(), Shape: spec.Shape}
	abandon := func(err error) (*Machine, error) {
		_ = process.Kill()
		_, _ = process.Wait()
		g.remove()
		return nil, err
	}
	var err error
	if r.StartTime, err = startTime(r.PID); err != nil {
		return abandon(err)
	}
	if err := errors.Join(g.add(r.PID), r.save(dir)); err != nil {
		return abandon(err)
	}
	m, err := newMachine(r, dir, g, process)
	if err != nil {
		return abandon(err)
	}
	if err := goOn(); err != nil {
		m.Kill()
		return nil, fmt.Errorf("%w %s", err, strings.TrimSpace(m.LastWords()))
	}
	return m, nil
}

// listenControl makes the control port's socket in a state directory; its path may be longer than an address can hold.
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
