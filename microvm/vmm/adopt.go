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

// ErrGone is returned by Adopt when the machine of a directory has ended.
var ErrGone = errors.New("the machine has ended")

// Adopt finds the machine of a state directory again after a restart of the host process.
func Adopt(dir string) (*Machine, error) {
	b, err := os.ReadFile(filepath.Join(dir, recordFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s has no %s", ErrGone, dir, recordFile)
	}
	if err != nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrGone, filepath.Join(dir, recordFile), err)
	}
	if r.BootID != bootID() {
		return nil, fmt.Errorf("machine %s: %w: this machine was rebooted", r.ID, ErrGone)
	}
	m, err := newMachine(r, dir, findGroup(r.ID), nil)
	if err != nil {
		findGroup(r.ID).remove() // nobody was there to see its end
		return nil, fmt.Errorf("%w: %w", ErrGone, err)
	}
	return m, nil
}

// Reap kills every VMM process of the given state root whose machine keep does not name, and removes the cgroups of
// these machines, and of those that have a directory there. It finds processes by their command line and their
// working directory, so that one is found even if its starter was killed before it could write anything down.
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
		id, ours := machineOf(root, stateDir(pid))
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

// machineOf says which machine has a directory, if that is right below root. In namespaces a container's process can
// have any command line, such as one with "..", by which a cgroup would be found that is no machine's.
func machineOf(root, dir string) (id string, ours bool) {
	id = filepath.Base(dir)
	return id, filepath.Join(root, id) == dir
}

// stateDir is that of the machine of a VMM process: an agent in namespaces, which sees no directory of this machine,
// has it as its argument, others work in it.
func stateDir(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if args := strings.Split(string(b), "\x00"); len(args) > 2 && args[0] == processMark {
		return args[1]
	}
	dir, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	return strings.TrimSuffix(dir, " (deleted)")
}

// isVMM tells a VMM from a shell somebody opened in the state directory.
func isVMM(pid int) bool {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.Contains(string(b), processMark)
}

// kill ends a process and waits for its end.
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
