package sandbox

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Stored is a line of a container's log, or a part of a long one.
type Stored struct {
	// Nanos is its time. Within a pod all lines have different times, and later lines have later ones.
	Nanos   int64
	Stderr  bool
	Partial bool // the next one of the same stream continues the line
	Text    []byte
}

// String returns the line as it is stored, without its newline.
func (s Stored) String() string {
	stream, mark := "stdout", "F"
	if s.Stderr {
		stream = "stderr"
	}
	if s.Partial {
		mark = "P"
	}
	return time.Unix(0, s.Nanos).UTC().Format(logTime) + " " + stream + " " + mark + " " + string(s.Text)
}

// parseStored parses a line of a log file.
func parseStored(b []byte) (Stored, bool) {
	line, ok := bytes.CutSuffix(b, []byte("\n"))
	fields := bytes.SplitN(line, []byte(" "), 4)
	if !ok || len(fields) != 4 {
		return Stored{}, false
	}
	at, err := time.Parse(logTime, string(fields[0]))
	if err != nil {
		return Stored{}, false
	}
	return Stored{
		Nanos: at.UnixNano(), Stderr: string(fields[1]) == "stderr", Partial: string(fields[2]) == "P",
		Text: fields[3],
	}, true
}

// Tail reads a container's log through all its runs, from the oldest line that is stored. It never holds up the writer:
// lines that are removed before they were read are counted. It is for one goroutine at a time.
type Tail struct {
	logs      *Logs
	container string
	after     int64 // lines up to this time are left out

	// Guarded by logs.mu.
	file   *os.File // nil: open the next one
	at     int      // rank of the file, or of the one read before; -1 before any
	offset int64    // of the first byte that has not been read
	lost   int64

	lines [][]byte // read, and not returned yet
}

// Tail returns a reader of a container's log, from the first line after a time; 0 is the oldest. The caller closes it.
func (l *Logs) Tail(container string, after int64) (*Tail, error) {
	if !slices.Contains(l.names, container) {
		return nil, fmt.Errorf("the pod has no container %q", container)
	}
	t := &Tail{logs: l, container: container, after: after, at: -1}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tails = append(l.tails, t)
	return t, nil
}

// Close ends the reading.
func (t *Tail) Close() {
	t.logs.mu.Lock()
	defer t.logs.mu.Unlock()
	t.logs.tails = slices.DeleteFunc(t.logs.tails, func(other *Tail) bool { return other == t })
	t.closeFile()
}

// Lost returns how many lines were removed before they were read.
func (t *Tail) Lost() int64 {
	t.logs.mu.Lock()
	defer t.logs.mu.Unlock()
	return t.lost
}

// Next returns the next line, and false if there is none now.
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

// tailChunk is how much is read at once: several of the longest lines.
const tailChunk = 64 << 10

// read fills lines. It returns false if there is nothing more.
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
			whole = n // not a line that Logs wrote: skip it
		}
		if whole > 0 {
			t.offset += int64(whole)
			t.lines = slices.Collect(bytes.Lines(b[:whole]))
			return true, nil
		}
		if _, more, err := t.next(); !more || err != nil {
			return false, err
		}
		t.closeFile() // its end, and another one follows
	}
}

// closeFile closes the file. logs.mu is held.
func (t *Tail) closeFile() {
	if t.file != nil {
		_ = t.file.Close()
		t.file = nil
	}
}

// open opens the oldest file that has not been read. logs.mu is held.
func (t *Tail) open() (bool, error) {
	p, found, err := t.next()
	if !found || err != nil {
		return false, err
	}
	if t.file, err = os.Open(p.path); err != nil {
		return false, err
	}
	t.at, t.offset = p.rank, 0
	return true, nil
}

// next returns the oldest file after the one that is, or was, being read. logs.mu is held.
func (t *Tail) next() (part, bool, error) {
	parts, err := t.logs.parts(t.container)
	i := slices.IndexFunc(parts, func(p part) bool { return p.rank > t.at })
	if i < 0 || err != nil {
		return part{}, false, err
	}
	return parts[i], true, nil
}

// part is one file of a container's log. Later files have higher ranks: for each run the rotated file's, and then that
// of the file being written.
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

// parts returns the files of a container's log, oldest first. l.mu is held.
func (l *Logs) parts(container string) ([]part, error) {
	entries, err := os.ReadDir(filepath.Join(l.dir, container))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []part
	for _, e := range entries {
		name, old := strings.CutSuffix(e.Name(), oldSuffix)
		name, ok := strings.CutSuffix(name, ".log")
		if run, err := strconv.ParseUint(name, 10, 31); ok && err == nil {
			all = append(all, part{filepath.Join(l.dir, container, e.Name()), rank(uint32(run), old)})
		}
	}
	slices.SortFunc(all, func(a, b part) int { return cmp.Compare(a.rank, b.rank) })
	return all, nil
}

// forget makes the tails of a container count the unread lines of a file that is about to be removed. l.mu is held.
func (l *Logs) forget(container string, run uint32, old bool) {
	path, r := l.path(container, run), rank(run, old)
	if old {
		path += oldSuffix
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
		t.closeFile()
		if t.at = r; old {
			t.at-- // another file will have its name
		}
	}
}

// linesAfter counts the whole lines of a file, from an offset, that are newer than a time.
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
