package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/nodeless/nodeless/microvm/wire"
)

// LogOptions are kubectl's.
type LogOptions struct {
	Container  string
	Follow     bool
	Previous   bool
	Timestamps bool
	Since      time.Time
	TailLines  *int64
	LimitBytes *int64
}

// ErrNoPrevious is returned for the log of a previous run when there was none.
var ErrNoPrevious = errors.New("previous terminated container not found")

// Logs writes a container's log to w; with Follow until the container's run ends or ctx does.
func (vm *VM) Logs(ctx context.Context, o LogOptions, w io.Writer) error {
	if !slices.Contains(vm.record.Containers, o.Container) {
		return fmt.Errorf("pod %s has no container %q", vm.ID(), o.Container)
	}
	restart := uint32(0)
	s, _ := vm.Status()
	for _, c := range s.Pod.Containers {
		if c.Name == o.Container {
			restart = uint32(c.Restarts)
		}
	}
	if o.Previous {
		if restart == 0 {
			return fmt.Errorf("container %q: %w", o.Container, ErrNoPrevious)
		}
		restart, o.Follow = restart-1, false
	}
	r := logReader{options: o, out: bufio.NewWriter(w), path: vm.logs.path(o.Container, restart)}
	defer func() { _ = r.out.Flush() }()
	if err := r.begin(); err != nil {
		return err
	}
	defer r.close()
	for {
		changed, over := vm.logs.next(), vm.runOver(o.Container, restart)
		if done, err := r.copy(); done || err != nil {
			return err
		}
		if !o.Follow || over {
			return nil
		}
		_, status := vm.Status()
		select {
		case <-changed:
		case <-status:
		case <-ctx.Done():
			return nil
		}
	}
}

// next is closed when something was logged.
func (l *logFiles) next() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// runOver reports whether a run of a container has ended and all it logged is stored.
func (vm *VM) runOver(container string, restart uint32) bool {
	s, _ := vm.Status()
	if s.Phase == Ended {
		return true
	}
	for _, c := range s.Pod.Containers {
		if c.Name == container {
			return uint32(c.Restarts) > restart || c.State != wire.Running && c.Exit != nil && s.Pod.Done
		}
	}
	return false
}

// logReader turns a stored log into what kubectl shows.
type logReader struct {
	options LogOptions
	path    string
	file    *os.File
	in      *bufio.Reader
	out     *bufio.Writer
	part    []byte // of a line that is still being written
	skip    int64  // records to leave out, for TailLines
	written int64
	inLine  bool // the last record was a part of a line
}

func (r *logReader) begin() error {
	if r.options.TailLines == nil {
		return nil
	}
	total := int64(0)
	for _, path := range []string{r.path + ".old", r.path} {
		b, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		for line := range bytes.Lines(b) {
			if it, ok := parseLog(line); ok && !it.partial {
				total++
			}
		}
	}
	r.skip = max(0, total-*r.options.TailLines)
	return nil
}

func (r *logReader) close() {
	if r.file != nil {
		_ = r.file.Close()
	}
}

// copy writes what there is; done when the limit of bytes is reached.
func (r *logReader) copy() (done bool, err error) {
	defer func() {
		if flushErr := r.out.Flush(); err == nil {
			err = flushErr
		}
	}()
	for {
		if r.file == nil {
			if opened, err := r.next(); !opened || err != nil {
				return false, err
			}
		}
		b, err := r.in.ReadBytes('\n')
		r.part = append(r.part, b...)
		if errors.Is(err, io.EOF) {
			if r.rotated() {
				r.close()
				r.file = nil
				continue
			}
			return false, nil
		}
		if err != nil {
			return false, err
		}
		line := r.part
		r.part = nil
		if done, err := r.write(line); done || err != nil {
			return done, err
		}
	}
}

// next opens the part of the log that comes next: what was put aside first.
func (r *logReader) next() (bool, error) {
	path := r.path
	if r.in == nil {
		if _, err := os.Stat(r.path + ".old"); err == nil {
			path = r.path + ".old"
		}
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil // nothing was logged yet
	}
	if err != nil {
		return false, err
	}
	r.file, r.in = f, bufio.NewReader(f)
	return true, nil
}

// rotated reports whether the file being read is no longer the one that is written.
func (r *logReader) rotated() bool {
	now, err1 := os.Stat(r.path)
	mine, err2 := r.file.Stat()
	return err1 == nil && err2 == nil && !os.SameFile(now, mine)
}

type logLine struct {
	stamp   []byte
	partial bool
	text    []byte // with its newline
}

// parseLog reads a stored line.
func parseLog(b []byte) (logLine, bool) {
	fields := bytes.SplitN(b, []byte(" "), 4)
	if len(fields) != 4 {
		return logLine{}, false
	}
	return logLine{stamp: fields[0], partial: string(fields[2]) == "P", text: fields[3]}, true
}

func (r *logReader) write(b []byte) (done bool, err error) {
	line, ok := parseLog(b)
	if !ok {
		return false, nil
	}
	beginning := !r.inLine
	r.inLine = line.partial
	if r.skip > 0 {
		if !line.partial {
			r.skip--
		}
		return false, nil
	}
	if !r.options.Since.IsZero() {
		if at, err := time.Parse(logTime, string(line.stamp)); err != nil || at.Before(r.options.Since) {
			return false, nil
		}
	}
	out := line.text
	if line.partial {
		out = bytes.TrimSuffix(out, []byte("\n"))
	}
	if r.options.Timestamps && beginning {
		out = append(append(append([]byte(nil), line.stamp...), ' '), out...)
	}
	if limit := r.options.LimitBytes; limit != nil {
		if left := *limit - r.written; int64(len(out)) >= left {
			out, done = out[:left], true
		}
	}
	n, err := r.out.Write(out)
	r.written += int64(n)
	return done, err
}
