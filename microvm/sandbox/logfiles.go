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

// Bounds of stored logs, kubelet's defaults: a file is put aside at this size, and one that was put aside is kept.
const maxLogFile = 10 << 20

// logFiles stores what containers logged, one file for each run of a container, in the format of the Kubernetes
// container runtime interface: "TIME STREAM F|P TEXT". The runs kept are the last two, which is what kubectl logs and
// its --previous show.
type logFiles struct {
	dir   string
	names []string // of the containers

	mu      sync.Mutex
	open    map[string]*logFile
	tails   []*Tail // that read
	changed chan struct{}
}

const logsDir = "logs" // in a state directory

type logFile struct {
	*os.File
	size int64
}

func newLogFiles(dir string, names []string) *logFiles {
	return &logFiles{
		dir: filepath.Join(dir, logsDir), names: names, open: map[string]*logFile{},
		changed: make(chan struct{}),
	}
}

func (l *logFiles) path(container string, restart uint32) string {
	return filepath.Join(l.dir, container, fmt.Sprintf("%d.log", restart))
}

// storeLogs takes the guest's log records until the session ends. Files are open no longer than that.
func (vm *VM) storeLogs(conn *wire.Conn) error {
	defer vm.logs.close()
	after, err := vm.logs.last()
	if err != nil {
		return err
	}
	s, err := conn.Open(wire.KindLogs, wire.LogsRequest{After: after})
	if err != nil {
		return err
	}
	for {
		it, err := s.Receive()
		if err != nil {
			return err
		}
		r, err := wire.DecodeLogRecord(it.Channel, it.Data)
		if err != nil {
			return fmt.Errorf("the guest was ended: %w", err)
		}
		if err := vm.logs.writeWhenRoom(r, s.Done()); err != nil {
			return err
		}
		if err := s.SendMessage(wire.LogsTaken{Through: r.Nanos}); err != nil {
			return err
		}
	}
}

// close closes the files; what is logged later opens them again.
func (l *logFiles) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.open {
		_ = f.Close()
	}
	clear(l.open)
}

// fullPause is between attempts to store a log on a disk that is full.
const fullPause = time.Second

// writeWhenRoom is write that waits for a full disk until it is over: what the guest has to say waits there, and a
// pod need not end for its log.
func (l *logFiles) writeWhenRoom(r wire.LogRecord, over <-chan struct{}) error {
	for {
		err := l.write(r)
		if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
			return err
		}
		select {
		case <-time.After(fullPause):
		case <-over:
			return wire.ErrClosed
		}
	}
}

// write appends a record to its file.
func (l *logFiles) write(r wire.LogRecord) error {
	if int(r.Container) >= len(l.names) || r.Restart > math.MaxInt32 {
		return fmt.Errorf("the guest was ended: %w",
			&wire.ProtocolError{Rule: "a log record of a container, or a run, that the pod does not have"})
	}
	var b bytes.Buffer
	b.WriteString(time.Unix(0, r.Nanos).UTC().Format(logTime))
	b.WriteString([]string{"", " stdout ", " stderr "}[r.Stream])
	b.WriteString(map[bool]string{true: "P ", false: "F "}[r.Partial])
	b.Write(r.Line)
	b.WriteByte('\n')
	l.mu.Lock()
	defer l.mu.Unlock()
	path := l.path(l.names[r.Container], r.Restart)
	f := l.open[path]
	if f == nil {
		var err error
		if f, err = l.create(path, r); err != nil {
			return fmt.Errorf("store a log: %w", err)
		}
	}
	n, err := f.Write(b.Bytes())
	if err != nil {
		_ = f.Truncate(f.size) // whole lines only
		return fmt.Errorf("store a log: %w", err)
	}
	f.size += int64(n)
	if f.size > maxLogFile {
		_ = f.Close()
		delete(l.open, path)
		l.forget(l.names[r.Container], r.Restart, true)
		if err := os.Rename(path, path+".old"); err != nil {
			return fmt.Errorf("put a log aside: %w", err)
		}
		l.putAside(l.names[r.Container], r.Restart)
	}
	close(l.changed)
	l.changed = make(chan struct{})
	return nil
}

// create opens the file of a run, and forgets others than that and the previous one.
func (l *logFiles) create(path string, r wire.LogRecord) (*logFile, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	name := l.names[r.Container]
	for p, f := range l.open {
		if filepath.Dir(p) == filepath.Dir(path) {
			_ = f.Close()
			delete(l.open, p)
		}
	}
	if err := l.forgetRuns(name, r.Restart); err != nil {
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
	l.open[path] = &logFile{f, info.Size()}
	return l.open[path], nil
}

// forgetRuns forgets all runs of a container but one and the last of the others. It is the guest that numbers them,
// and silent ones have no file. l.mu is held.
func (l *logFiles) forgetRuns(container string, but uint32) error {
	var others []part
	for above := -1; ; {
		p, found, err := l.nextPart(container, above)
		if err != nil {
			return err
		}
		if !found {
			break
		}
		if above = p.rank; p.run() != but {
			others = append(others, p)
		}
	}
	for _, p := range others {
		if p.run() != others[len(others)-1].run() {
			l.forget(container, p.run(), p.old())
			_ = os.Remove(p.path)
		}
	}
	return nil
}

// LogFile is where the log of a container's run is stored, in the format of CRI, and is there when this returns; the
// first run is 0. What the file is renamed to when it has grown too large has the suffix ".old".
func (vm *VM) LogFile(container string, run int) (string, error) {
	if !slices.Contains(vm.record.Containers, container) || run < 0 {
		return "", fmt.Errorf("pod %s has no container %q with a run %d", vm.ID(), container, run)
	}
	path := vm.logs.path(container, uint32(run))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600) // a run that has said nothing has an empty log
	if err != nil {
		return "", err
	}
	return path, f.Close()
}

// logTime is RFC 3339 with all nine digits.
const logTime = "2006-01-02T15:04:05.000000000Z07:00"

// last is the time of the newest record that is stored. A line that a killed host left unfinished is cut off: the
// guest sends it again.
func (l *logFiles) last() (int64, error) {
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
