package vmm

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrGone is returned by Adopt for a VM that has ended.
var ErrGone = errors.New("the VM has ended")

// Adopt returns the process of a running VM from its state directory, after a restart of the host process.
func Adopt(dir string) (*Process, error) {
	b, err := os.ReadFile(filepath.Join(dir, recordFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s has no %s", ErrGone, dir, recordFile)
	}
	if err != nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrGone, filepath.Join(dir, recordFile), err)
	}
	if r.BootID != bootID() {
		return nil, fmt.Errorf("VM %s: %w: the host was rebooted", r.ID, ErrGone)
	}
	p, err := newProcess(r, dir, findGroup(r.ID), nil)
	if err != nil {
		findGroup(r.ID).remove() // no process was running to remove it at the VM's end
		return nil, fmt.Errorf("%w: %w", ErrGone, err)
	}
	return p, nil
}

// Reap kills every VMM process whose state directory is below root, except those of the VMs in keep. It removes the
// cgroups of the killed VMs and of all other VMs with a directory there that are not in keep. It finds processes by
// command line and working directory, and thus also those whose parent was killed before it could record them.
func Reap(root string, keep map[string]bool) (killed int, err error) {
	root, err = filepath.Abs(root)
	if err != nil {
		return 0, err
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	var groups []group
	directories, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	for _, d := range directories {
		if d.IsDir() && !keep[d.Name()] {
			groups = append(groups, findGroup(d.Name()))
		}
	}
	for _, process := range processes {
		pid, _ := strconv.Atoi(filepath.Base(process))
		if pid == os.Getpid() || !isVMM(pid) {
			continue
		}
		id, ours := vmOf(root, stateDir(pid))
		if !ours || keep[id] {
			continue
		}
		if kill(pid) {
			killed++
		}
		groups = append(groups, findGroup(id))
	}
	for _, g := range groups {
		g.remove()
	}
	return killed, nil
}

// vmOf returns the VM whose state directory is dir, which must be directly below root. In namespaces, a container's
// process can have any command line, for instance one with "..", which would name a cgroup that does not belong to a
// VM.
func vmOf(root, dir string) (id string, ours bool) {
	id = filepath.Base(dir)
	return id, filepath.Join(root, id) == dir
}

// stateDir returns the state directory of a VMM process: its working directory or, for an agent in namespaces, which
// cannot see the host's directories, its first argument.
func stateDir(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if args := strings.Split(string(b), "\x00"); len(args) > 2 && args[0] == processMark {
		return args[1]
	}
	dir, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	return strings.TrimSuffix(dir, " (deleted)")
}

// isVMM distinguishes a VMM from, say, a shell in a state directory.
func isVMM(pid int) bool {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.Contains(string(b), processMark)
}

// kill kills a VMM process and waits for it to end.
func kill(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	if !isVMM(pid) || unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) != nil {
		return false
	}
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int((5*time.Second)/time.Millisecond))
	return true
}
