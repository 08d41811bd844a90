package plane

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// LockedError says that another process uses the data directory.
type LockedError struct {
	Dir string
	PID string // of the other process, "" if unknown
}

func (e *LockedError) Error() string {
	who := "another process"
	if e.PID != "" {
		who = "process " + e.PID
	}
	return fmt.Sprintf("data directory %s is in use by %s; end that one first (nodeless down) or choose another directory (--data-dir)", e.Dir, who)
}

// lock takes the data directory for this process. The kernel gives the lock back when the process ends, however it ends,
// so a lock file left behind means nothing.
func lock(dir string) (release func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory %s cannot be written: %w; choose another", dir, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock data directory %s: %w; choose one on a local disk", dir, err)
		}
		pid, _ := io.ReadAll(io.LimitReader(f, 20))
		return nil, &LockedError{Dir: dir, PID: strings.TrimSpace(string(pid))}
	}
	if err := errors.Join(f.Truncate(0), writeAt(f, fmt.Sprintln(os.Getpid()))); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock data directory %s: %w", dir, err)
	}
	return func() { _ = f.Truncate(0); _ = f.Close() }, nil
}

func writeAt(f *os.File, s string) error {
	_, err := f.WriteAt([]byte(s), 0)
	return err
}
