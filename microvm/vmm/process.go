package vmm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/internal/kit/atomicfile"
)

// Files of a VM's state directory.
const (
	recordFile  = "machine.json"
	controlFile = "control.sock"
	consoleFile = "console.log"
	vmmLogFile  = "vmm.log"
)

// record is what a later process needs to adopt a VM. Process IDs are reused, so the start time is part of the
// process's identity.
type record struct {
	ID        string
	PID       int
	StartTime uint64 // in clock ticks since boot, from /proc/PID/stat
	BootID    string
}

func (r record) save(dir string) error {
	return atomicfile.WriteJSON(filepath.Join(dir, recordFile), r)
}

// Process is the process of a VM, running or just ended.
type Process struct {
	record record
	dir    string
	pidfd  int
	group  group
	fresh  bool // started by this host process, and not dialed yet
	done   chan struct{}
	mu     sync.Mutex // keeps pidfd open while it is used
	ended  bool
}

// spawn starts the process of a VM, puts it into its cgroup and records it.
func spawn(cmd *exec.Cmd, start func(*exec.Cmd) error, id, dir string, g group) (*Process, error) {
	if err := start(cmd); err != nil {
		g.remove()
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	r := record{ID: id, PID: cmd.Process.Pid, BootID: bootID()}
	var p *Process
	var err error
	if r.StartTime, err = startTime(r.PID); err == nil {
		err = errors.Join(g.add(r.PID), r.save(dir))
	}
	if err == nil {
		p, err = newProcess(r, dir, g, cmd.Process)
	}
	if err == nil {
		p.fresh = true
	} else {
		_ = cmd.Process.Kill()
		_, _ = cmd.Process.Wait()
		g.remove()
	}
	return p, err
}

// openLog opens the file for the standard output and error of a VM's process.
func openLog(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, vmmLogFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

// newProcess watches a process, and reaps it if it is a child of this one.
func newProcess(r record, dir string, g group, child *os.Process) (*Process, error) {
	fd, err := unix.PidfdOpen(r.PID, 0)
	if err != nil {
		return nil, fmt.Errorf("VM %s: watch process %d: %w", r.ID, r.PID, err)
	}
	if start, err := startTime(r.PID); err != nil || start != r.StartTime {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("VM %s: process %d is another one now", r.ID, r.PID)
	}
	if child == nil && hasEnded(fd) { // its parent may reap it late, or never
		_ = unix.Close(fd)
		return nil, fmt.Errorf("VM %s: process %d has ended", r.ID, r.PID)
	}
	p := &Process{record: r, dir: dir, pidfd: fd, group: g, done: make(chan struct{})}
	go p.await(child)
	return p, nil
}

// hasEnded reports whether a process has ended, reaped or not.
func hasEnded(pidfd int) bool {
	n, _ := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
	return n > 0
}

func (p *Process) await(child *os.Process) {
	if child != nil {
		_, _ = child.Wait() // its logs say how it ended
	} else {
		for {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}, -1)
			if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
				break
			}
		}
	}
	p.mu.Lock()
	p.ended = true
	_ = unix.Close(p.pidfd)
	p.mu.Unlock()
	p.group.remove()
	close(p.done)
}

// Done returns a channel that is closed when the process has ended and its cgroup is removed.
func (p *Process) Done() <-chan struct{} { return p.done }

// PID returns the ID of the process.
func (p *Process) PID() int { return p.record.PID }

// Kill ends the VM and returns once it has ended. It can be called repeatedly.
func (p *Process) Kill() {
	p.mu.Lock()
	if !p.ended {
		_ = unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0)
	}
	p.mu.Unlock()
	<-p.done
}

// maxConsole limits the size of a console log in bytes, since a guest could otherwise fill the host's disk.
const maxConsole = 1 << 20

// TrimConsole empties logs that have grown too large. Call it periodically.
func (p *Process) TrimConsole() {
	for _, name := range []string{consoleFile, vmmLogFile} {
		path := filepath.Join(p.dir, name)
		if info, err := os.Stat(path); err == nil && info.Size() > maxConsole {
			_ = os.Truncate(path, 0) // the VMM appends
		}
	}
}

// LastWords returns the VMM's messages and the end of the guest's console, for errors that report why a VM ended. Of
// each it returns the line of a kernel panic, or else the last 2,000 bytes.
func (p *Process) LastWords() string { return lastWords(p.dir) }

// panicLine begins the line in which Linux reports why it panics. The trace after it may be longer than lastWords
// reads.
const panicLine = "Kernel panic - not syncing: "

func lastWords(dir string) string {
	var words []string
	for _, name := range []string{vmmLogFile, consoleFile} {
		text := tail(filepath.Join(dir, name), 16<<10)
		if at := strings.LastIndex(text, panicLine); at >= 0 {
			text, _, _ = strings.Cut(text[at:], "\n")
		}
		if text = strings.TrimSpace(text[max(0, len(text)-2000):]); text != "" {
			words = append(words, text)
		}
	}
	return strings.ToValidUTF8(strings.Join(words, "\n"), "\uFFFD")
}

// tail returns the last n bytes of a file.
func tail(path string, n int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	b := make([]byte, min(n, info.Size()))
	_, _ = f.ReadAt(b, info.Size()-int64(len(b)))
	return string(b)
}

// startTime returns when a process started, in clock ticks since boot: field 22 of /proc/PID/stat, counted after the
// command's closing parenthesis.
func startTime(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	text := string(b)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

func bootID() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
}
