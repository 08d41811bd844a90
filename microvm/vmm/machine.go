package vmm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/wire"
)

// Files of a machine's state directory.
const (
	recordFile  = "machine.json"
	controlFile = "control.sock"
	consoleFile = "console.log"
	vmmLogFile  = "vmm.log"
)

// record is what a later process needs to find a machine again. A process is known by its id and its start time: ids
// are used again.
type record struct {
	ID        string
	Driver    string
	PID       int
	StartTime uint64 // in clock ticks since boot, from /proc/PID/stat
	BootID    string
	Shape     Shape
}

// Machine is a running, or just ended, virtual machine.
type Machine struct {
	ID  string
	Dir string

	record record
	pidfd  int
	group  group
	done   chan struct{}
	kill   sync.Mutex // keeps pidfd from being closed meanwhile
	gone   bool
}

// newMachine takes charge of a process: a child of this process is reaped, any other is watched.
func newMachine(r record, dir string, g group, child *os.Process) (*Machine, error) {
	fd, err := unix.PidfdOpen(r.PID, 0)
	if err != nil {
		return nil, fmt.Errorf("machine %s: watch process %d: %w", r.ID, r.PID, err)
	}
	if start, err := startTime(r.PID); err != nil || start != r.StartTime {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("machine %s: process %d is another one now", r.ID, r.PID)
	}
	if child == nil && hasEnded(fd) { // whoever has to reap it may take long, or never come to it
		_ = unix.Close(fd)
		return nil, fmt.Errorf("machine %s: process %d has ended", r.ID, r.PID)
	}
	m := &Machine{ID: r.ID, Dir: dir, record: r, pidfd: fd, group: g, done: make(chan struct{})}
	go m.await(child)
	return m, nil
}

// hasEnded reports whether a process has, whether reaped or not.
func hasEnded(pidfd int) bool {
	n, _ := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
	return n > 0
}

func (m *Machine) await(child *os.Process) {
	if child != nil {
		_, _ = child.Wait() // how it ended is in its logs
	} else {
		for {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(m.pidfd), Events: unix.POLLIN}}, -1)
			if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
				break
			}
		}
	}
	m.kill.Lock()
	m.gone = true
	_ = unix.Close(m.pidfd)
	m.kill.Unlock()
	m.group.remove()
	close(m.done)
}

// Done is closed when the machine's process has ended and its cgroup is gone.
func (m *Machine) Done() <-chan struct{} { return m.done }

// Shape of the machine.
func (m *Machine) Shape() Shape { return m.record.Shape }

// PID of the machine's process.
func (m *Machine) PID() int { return m.record.PID }

// Kill ends the machine at once and returns when it has gone. It can be called any number of times.
func (m *Machine) Kill() {
	m.kill.Lock()
	if !m.gone {
		_ = unix.PidfdSendSignal(m.pidfd, unix.SIGKILL, nil, 0)
	}
	m.kill.Unlock()
	<-m.done
}

// maxConsole is how much a console log may hold, in bytes. A guest could fill the host's disk by it otherwise.
const maxConsole = 1 << 20

// TrimConsole empties a console log that has grown too large. Call it from time to time.
func (m *Machine) TrimConsole() {
	for _, name := range []string{consoleFile, vmmLogFile} {
		path := filepath.Join(m.Dir, name)
		if info, err := os.Stat(path); err == nil && info.Size() > maxConsole {
			_ = os.Truncate(path, 0) // the VMM appends
		}
	}
}

// LastWords are what the VMM complained of and the end of the guest's console, for a message that says why a machine
// ended: of a kernel that panicked the line that says why, else the last 2,000 bytes.
func (m *Machine) LastWords() string { return lastWords(m.Dir) }

// panicLine is how Linux begins the line that says why it ends; what comes after it, a trace, may be longer than the
// line is far.
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

// Time limits of an attempt to begin a session: the first may have to wait for a boot; later ones assume that a
// killed host left half a frame behind.
const (
	bootTime   = 30 * time.Second
	answerTime = 5 * time.Second
)

// Dial begins a session with the guest's agent; it waits for a guest that is booting until ctx ends. One session at a
// time.
func (m *Machine) Dial(ctx context.Context) (*wire.Conn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-m.done:
			cancel(fmt.Errorf("the machine has ended: %s", m.LastWords()))
		case <-ctx.Done():
		}
	}()
	limit := bootTime
	for stale := false; ; stale = true {
		c, err := m.dialOnce(ctx, stale, limit)
		if cause := context.Cause(ctx); err != nil && cause != nil {
			return nil, fmt.Errorf("machine %s: %w", m.ID, cause)
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return c, err
		}
		limit = answerTime
	}
}

func (m *Machine) dialOnce(ctx context.Context, stale bool, limit time.Duration) (*wire.Conn, error) {
	conn, err := dialUnix(ctx, filepath.Join(m.Dir, controlFile))
	if err != nil {
		return nil, fmt.Errorf("machine %s: connect to its control port: %w", m.ID, err)
	}
	_ = conn.SetDeadline(time.Now().Add(limit))
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	c, err := wire.Dial(conn, stale)
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("machine %s: %w", m.ID, err)
	}
	_ = conn.SetDeadline(time.Time{})
	return c, nil
}

// dialUnix connects to a socket whose path may be longer than the 108 bytes an address can hold.
func dialUnix(ctx context.Context, path string) (net.Conn, error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	var d net.Dialer
	for {
		conn, err := d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
		if !errors.Is(err, unix.ECONNREFUSED) || !again(ctx) {
			return conn, err
		}
	}
}

// again pauses before another attempt: a VMM has made its socket a moment before it listens on it. It is false when
// ctx has ended.
func again(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(time.Millisecond):
		return true
	}
}

func (r record) save(dir string) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return writeFileAtomically(filepath.Join(dir, recordFile), b)
}

// startTime of a process, in clock ticks since boot: field 22 of /proc/PID/stat, counted after the command's closing
// parenthesis.
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

// startLimit is how long a VMM may take to open its control socket, or to fail.
const startLimit = 20 * time.Second

// awaitSocket waits until the VMM listens on its control socket, or ends.
func awaitSocket(m *Machine, path string) error {
	for deadline := time.Now().Add(startLimit); time.Now().Before(deadline); {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		select {
		case <-m.Done():
			return errors.New("the VMM ended at once")
		case <-time.After(2 * time.Millisecond):
		}
	}
	return fmt.Errorf("the VMM does not open its control socket within %s", startLimit)
}
