package plane

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"google.golang.org/grpc/grpclog"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// maxLog is the size at which a log file is rotated.
const maxLog = 32 << 20

// maxWhy is how much of the last line of klog.Fatal is kept.
const maxWhy = 500

// logs receives the logs of all components. The loggers of Kubernetes, gRPC and etcd are globals that cannot be
// replaced safely once goroutines use them: they are set to this writer once, and only its file changes.
var logs = &logWriter{}

var redirect sync.Once

// openLog begins a new log file and keeps the previous one beside it.
func openLog(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("log folder: %w", err)
	}
	if err := logs.open(path); err != nil {
		return fmt.Errorf("log file: %w", err)
	}
	redirect.Do(func() {
		klog.SetLoggerWithOptions(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(logs))),
			klog.WriteKlogBuffer(func(line []byte) { _, _ = logs.Write(line) })) // keeps the F of klog.Fatal
		klog.OsExit = fatalExit
		grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, logs, logs))
		quietEtcdClient()
	})
	return nil
}

func closeLog() { logs.close() }

// logWriter writes to a file, which it rotates at maxLog. Without a file it discards everything: goroutines of a
// stopped control plane may still log.
type logWriter struct {
	mu   sync.Mutex
	path string
	file *os.File
	size int
	why  []byte // last line that klog.Fatal logged, or its beginning
}

func (w *logWriter) open(path string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.path = path
	return w.rotate()
}

func (w *logWriter) rotate() error {
	if w.file != nil {
		_ = w.file.Close()
		w.file = nil
	}
	if err := os.Rename(w.path, w.path+".1"); err != nil && !os.IsNotExist(err) {
		return err
	}
	f, err := os.OpenFile(w.path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	w.file, w.size = f, 0
	return nil
}

func (w *logWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(b) > 0 && b[0] == 'F' { // klog begins a line with its severity
		w.why = append(w.why[:0], b[:min(len(b), maxWhy)]...)
	}
	if w.file == nil {
		return len(b), nil
	}
	if w.size += len(b); w.size > maxLog {
		if err := w.rotate(); err != nil {
			return len(b), nil //nolint:nilerr // a full disk must not stop the control plane because of its log
		}
		w.size = len(b)
	}
	if _, err := w.file.Write(b); err != nil {
		return len(b), nil //nolint:nilerr // as above
	}
	return len(b), nil
}

// fatal returns the last line that klog.Fatal logged, or its beginning.
func (w *logWriter) fatal() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.TrimSpace(string(w.why))
}

func (w *logWriter) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file != nil {
		_ = w.file.Close()
		w.file = nil
	}
}
