package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodeless/nodeless/microvm/wire"
)

const (
	// maxLogFile is the size at which a log file is rotated, a kubelet's default. One rotated file is kept.
	maxLogFile = 10 << 20
	logsDir    = "logs" // in a state directory
	oldSuffix  = ".old" // of a rotated file

	mostUnsaid = 100 // records stored before they are acknowledged to the guest
	// logTime is RFC 3339 with all nine digits.
	logTime = "2006-01-02T15:04:05.000000000Z07:00"
	// fullPause is the time between attempts to write to a full disk.
	fullPause = time.Second
)

// Logs stores the logs of a pod's containers, one file per run of a container, in the log format of the Kubernetes
// container runtime interface: "TIME STREAM F|P TEXT". It keeps the last two runs, which kubectl logs shows without
// and with --previous. It is safe for concurrent use.
type Logs struct {
	dir string

	mu      sync.Mutex
	names   []string            // of the containers
	open    map[string]*logFile // by container
	tails   []*Tail
	changed chan struct{}
}

// logFile is the file that a container's current run writes to.
type logFile struct {
	*os.File
	run  uint32
	size int64
}

func newLogs(dir string, names []string) *Logs {
	return &Logs{
		dir: filepath.Join(dir, logsDir), names: names, open: map[string]*logFile{}, changed: make(chan struct{}),
	}
}

func (l *Logs) path(container string, run uint32) string {
	return filepath.Join(l.dir, container, fmt.Sprintf("%d.log", run))
}

// Containers returns the names of the pod's containers: init containers first, those added to the running pod last.
func (l *Logs) Containers() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.names)
}

// add adds a container unless it is present, and returns its index, which log records use to identify it.
func (l *Logs) add(container string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.names, container); i >= 0 {
		return i
	}
	l.names = append(slices.Clip(l.names), container)
	return len(l.names) - 1
}

// Logged returns a channel that is closed when a container next logs something.
func (l *Logs) Logged() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// LogFile returns the path of the log of a container's run, counted from 0, in CRI format. The file exists when
// LogFile returns. A rotated file has the same name with ".old" appended.
func (l *Logs) LogFile(container string, run int) (string, error) {
	if !slices.Contains(l.Containers(), container) || run < 0 {
		return "", fmt.Errorf("the pod has no container %q with a run %d", container, run)
	}
	path := l.path(container, uint32(run))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600) // a silent run has an empty log
	if err != nil {
		return "", err
	}
	return path, f.Close()
}

// store stores the guest's log records until the session ends, and then closes all files.
func (l *Logs) store(conn *wire.Conn) error {
	defer l.close()
	after, err := l.last()
	if err != nil {
		return err
	}
	s, err := conn.Open(wire.KindLogs, wire.LogsRequest{After: after})
	if err != nil {
		return err
	}
	for unsaid := 0; ; {
		it, err := s.Receive()
		if err != nil {
			return err
		}
		r, err := wire.DecodeLogRecord(it.Channel, it.Data)
		if err != nil {
			return fmt.Errorf("the guest was ended: %w", err)
		}
		if err := l.writeWhenRoom(r, s.Done()); err != nil {
			return err
		}
		if unsaid++; unsaid < mostUnsaid && s.Queued() > 0 {
			continue // fewer acknowledgements during a flood
		}
		if err := s.SendMessage(wire.LogsTaken{Through: r.Nanos}); err != nil {
			return err
		}
		unsaid = 0
	}
}

// close closes the files; the next record opens its file again.
func (l *Logs) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.open {
		_ = f.Close()
	}
	clear(l.open)
}

// writeWhenRoom calls write until the disk is not full. Meanwhile the guest buffers its logs, so that a pod does not
// fail because of its log.
func (l *Logs) writeWhenRoom(r wire.LogRecord, done <-chan struct{}) error {
	for {
		err := l.write(r)
		if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
			return err
		}
		select {
		case <-time.After(fullPause):
		case <-done:
			return wire.ErrClosed
		}
	}
}

// write appends a record to its file.
func (l *Logs) write(r wire.LogRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if int(r.Container) >= len(l.names) || r.Restart > math.MaxInt32 {
		return fmt.Errorf("the guest was ended: %w",
			&wire.ProtocolError{Rule: "a log record of a container, or a run, that the pod does not have"})
	}
	line := Stored{Nanos: r.Nanos, Stderr: r.Stream == wire.Stderr, Partial: r.Partial, Text: r.Line}.String() + "\n"
	name := l.names[r.Container]
	f := l.open[name]
	if f == nil || f.run != r.Restart {
		var err error
		if f, err = l.create(name, r.Restart); err != nil {
			return fmt.Errorf("store a log: %w", err)
		}
	}
	n, err := f.WriteString(line)
	if err != nil {
		_ = f.Truncate(f.size) // whole lines only
		return fmt.Errorf("store a log: %w", err)
	}
	f.size += int64(n)
	if f.size > maxLogFile {
		if err := l.rotate(name, f); err != nil {
			return fmt.Errorf("rotate a log: %w", err)
		}
	}
	close(l.changed)
	l.changed = make(chan struct{})
	return nil
}

// rotate replaces the old file of a run with its current one. l.mu is held.
func (l *Logs) rotate(container string, f *logFile) error {
	_ = f.Close()
	delete(l.open, container)
	l.forget(container, f.run, true)
	path := l.path(container, f.run)
	if err := os.Rename(path, path+oldSuffix); err != nil {
		return err
	}
	for _, t := range l.tails {
		if t.container == container && t.file != nil && t.at == rank(f.run, false) {
			t.at = rank(f.run, true)
		}
	}
	return nil
}

// create opens the file of a run and removes the files of all runs but this and the previous one. l.mu is held.
func (l *Logs) create(container string, run uint32) (*logFile, error) {
	path := l.path(container, run)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if previous := l.open[container]; previous != nil {
		_ = previous.Close()
		delete(l.open, container)
	}
	if err := l.removeRuns(container, run); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	l.open[container] = &logFile{f, run, info.Size()}
	return l.open[container], nil
}

// removeRuns removes the files of all runs of a container except the given one and the latest of the others. Run
// numbers need not be consecutive: the guest assigns them, and silent runs have no file. l.mu is held.
func (l *Logs) removeRuns(container string, except uint32) error {
	parts, err := l.parts(container)
	if err != nil {
		return err
	}
	parts = slices.DeleteFunc(parts, func(p part) bool { return p.run() == except })
	for _, p := range parts {
		if p.run() != parts[len(parts)-1].run() {
			l.forget(container, p.run(), p.old())
			_ = os.Remove(p.path)
		}
	}
	return nil
}

// last returns the time of the newest stored record. It cuts off a line that a killed host left incomplete; the guest
// sends it again.
func (l *Logs) last() (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var newest int64
	files, err := filepath.Glob(filepath.Join(l.dir, "*", "*.log*"))
	if err != nil {
		return 0, err
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			return 0, err
		}
		whole := bytes.LastIndexByte(b, '\n') + 1
		if whole < len(b) {
			if err := os.Truncate(path, int64(whole)); err != nil {
				return 0, err
			}
		}
		b = bytes.TrimSuffix(b[:whole], []byte("\n"))
		stamp, _, _ := strings.Cut(string(b[bytes.LastIndexByte(b, '\n')+1:]), " ")
		if t, err := time.Parse(logTime, stamp); err == nil {
			newest = max(newest, t.UnixNano())
		}
	}
	return newest, nil
}
