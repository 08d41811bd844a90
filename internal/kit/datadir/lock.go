package datadir

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const lockFile = "lock"

// InUseError means that another process uses the data directory.
type InUseError struct {
	Dir string
	PID int // of the other process, 0 if unknown
}

func (e *InUseError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("data directory %s is in use by %s; end that one first (nodeless down%s) or choose another "+
		"directory (--data-dir)",
		e.Dir, who, Flag(e.Dir))
}

// Lock takes the data directory for this process. The kernel releases the lock however the process ends, so a
// leftover lock file means nothing.
func Lock(dir string) (release func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory %s cannot be written to: %w; make it writable, or choose another with "+
			"--data-dir", dir, err)
	}
	if err := flockSoon(f); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock data directory %s: %w; choose one on a local disk", dir, err)
		}
		return nil, &InUseError{Dir: dir, PID: readPID(f)}
	}
	_ = f.Truncate(0)
	_, _ = f.WriteAt(fmt.Appendln(nil, os.Getpid()), 0) // best effort: a full disk can still be wiped
	return func() { _ = f.Truncate(0); _ = f.Close() }, nil
}

// InUse reports whether a process uses the data directory now.
func InUse(dir string) bool {
	_, used := User(dir)
	return used
}

// User returns the process that uses the data directory now, 0 if unknown; used is false if there is none.
func User(dir string) (pid int, used bool) {
	f, err := os.Open(filepath.Join(dir, lockFile))
	if err != nil {
		return 0, false
	}
	defer f.Close()
	if !errors.Is(flock(f), syscall.EWOULDBLOCK) {
		return 0, false
	}
	return readPID(f), true
}

func readPID(f *os.File) int {
	text, _ := io.ReadAll(io.LimitReader(f, 20))
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0 // it is being written
	}
	return pid
}

// glance is longer than a process that only checks the lock holds it.
const glance = 100 * time.Millisecond

// flockSoon takes the lock, and waits while another process only checks it.
func flockSoon(f *os.File) error {
	for until := time.Now().Add(glance); ; time.Sleep(glance / 10) { //nolint:forbidigo // the holder tells nobody
		if err := flock(f); err == nil || time.Now().After(until) {
			return err
		}
	}
}

func flock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
