package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Tail reads a container's log from its oldest line that is stored, through all its runs. It never holds up who
// writes: what is forgotten before it was read is counted. It is for one goroutine at a time.
type Tail struct {
	logs      *logFiles
	container string
	after     int64 // lines up to this time are left out

	// guarded by logs.mu
	file   *os.File // nil: the next one is to be looked for
	at     int      // rank of the file, or of the one read before; -1 before any
	offset int64    // of what was not read yet
	lost   int64

	lines [][]byte // read, and not given yet
}

// Tail begins to read a container's log with the first line after a time; 0 is its oldest. The caller closes it.
func (vm *VM) Tail(container string, after int64) (*Tail, error) {
	if !slices.Contains(vm.logs.names, container) {
		return nil, fmt.Errorf("pod %s has no container %q", vm.ID(), container)
	}
	return vm.logs.tail(container, after), nil
}

// Containers are the names of the pod's containers, init containers first.
func (vm *VM) Containers() []string { return slices.Clone(vm.logs.names) }

// Logged is closed when one of the containers has logged something more.
func (vm *VM) Logged() <-chan struct{} { return vm.logs.next() }

func (l *logFiles) tail(container string, after int64) *Tail {
	t := &Tail{logs: l, container: container, after: after, at: -1}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tails = append(l.tails, t)
	return t
}

// Close ends the reading.
func (t *Tail) Close() {
	t.logs.mu.Lock()
	defer t.logs.mu.Unlock()
	t.logs.tails = slices.DeleteFunc(t.logs.tails, func(other *Tail) bool { return other == t })
	t.leave()
}

// Lost is how many lines were forgotten before they were read.
func (t *Tail) Lost() int64 {
	t.logs.mu.Lock()
	defer t.logs.mu.Unlock()
	return t.lost
}

// Next is the next line; false if there is none now.
func (t *Tail) Next() (Stored, bool, error) {
	for {
		for len(t.lines) > 0 {
			line := t.lines[0]
			t.lines = t.lines[1:]
			if s, ok := parseStored(line); ok && s.Nanos > t.after {
				return s, true, nil
			}
		}
		if more, err := t.read(); !more || err != nil {
			return Stored{}, false, err
		}
	}
}

// tailChunk is how much is read at once: some of the longest lines.
const tailChunk = 64 << 10

// read fills lines; false if there is nothing more.
func (t *Tail) read() (bool, error) {
	t.logs.mu.Lock()
	defer t.logs.mu.Unlock()
	for {
		if t.file == nil {
			if found, err := t.open(); !found || err != nil {
				return false, err
			}
		}
		b := make([]byte, tailChunk)
		n, err := t.file.ReadAt(b, t.offset)
		if err != nil && !errors.Is(err, io.EOF) {
			return false, fmt.Errorf("read the log of container %s: %w", t.container, err)
		}
		whole := bytes.LastIndexByte(b[:n], '\n') + 1
		if whole == 0 && n == len(b) {
			whole = n // no line of ours: it is left out
		}
		if whole > 0 {
			t.offset += int64(whole)
			t.lines = slices.Collect(bytes.Lines(b[:whole]))
			return true, nil
		}
		if newer, err := t.newer(); !newer || err != nil {
			return false, err
		}
		t.leave() // its end, and another one follows
	}
}

// leave closes the file. logs.mu is held.
func (t *Tail) leave() {
	if t.file != nil {
		_ = t.file.Close()
		t.file = nil
	}
}

// part is one file of a container's log. Parts have ranks, later ones higher ones: that of a run which was put aside,
// and then the run's own.
type part struct {
	path string
	rank int
}

func rank(run uint32, old bool) int {
	if old {
		return 2 * int(run)
	}
	return 2*int(run) + 1
}

func (p part) run() uint32 { return uint32(p.rank / 2) }
func (p part) old() bool   { return p.rank%2 == 0 }

// nextPart is the oldest file of a container's log above a rank. l.mu is held.
func (l *logFiles) nextPart(container string, above int) (next part, found bool, err error) {
	entries, err := os.ReadDir(filepath.Join(l.dir, container))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return part{}, false, err
	}
	for _, e := range entries {
		name, old := strings.CutSuffix(e.Name(), ".old")
		name, ok := strings.CutSuffix(name, ".log")
		run, err := strconv.ParseUint(name, 10, 31)
		if r := rank(uint32(run), old); ok && err == nil && r > above && (!found || r < next.rank) {
			next, found = part{filepath.Join(l.dir, container, e.Name()), r}, true
		}
	}
	return next, found, nil
}

// open opens the oldest file that has not been read. logs.mu is held.
func (t *Tail) open() (bool, error) {
	p, found, err := t.logs.nextPart(t.container, t.at)
	if !found || err != nil {
		return false, err
	}
	if t.file, err = os.Open(p.path); err != nil {
		return false, err
	}
	t.at, t.offset = p.rank, 0
	return true, nil
}

// newer reports whether another file follows the one being read. logs.mu is held.
func (t *Tail) newer() (bool, error) {
	_, found, err := t.logs.nextPart(t.container, t.at)
	return found, err
}

// putAside tells those who read it that a run's file is an old one from now on. l.mu is held.
func (l *logFiles) putAside(container string, run uint32) {
	for _, t := range l.tails {
		if t.container == container && t.file != nil && t.at == rank(run, false) {
			t.at = rank(run, true)
		}
	}
}

// forget tells those who read a container's log that one of its files is going. l.mu is held.
func (l *logFiles) forget(container string, run uint32, old bool) {
	path, r := l.path(container, run), rank(run, old)
	if old {
		path += ".old"
	}
	for _, t := range l.tails {
		from := int64(0)
		switch {
		case t.container != container || t.at > r || t.at == r && t.file == nil:
			continue
		case t.at == r:
			from = t.offset
		}
		t.lost += linesAfter(path, from, t.after)
		t.leave()
		if t.at = r; old {
			t.at-- // another one will have its name
		}
	}
}

// linesAfter counts the whole lines of a file from an offset on that are newer than a time.
func linesAfter(path string, offset, after int64) (n int64) {
	b, err := os.ReadFile(path)
	if err != nil || offset >= int64(len(b)) {
		return 0
	}
	for line := range bytes.Lines(b[offset:]) {
		if s, ok := parseStored(line); ok && s.Nanos > after && !s.Partial {
			n++
		}
	}
	return n
}
