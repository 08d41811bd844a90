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
	// Nanos is its time. Times are unique within a pod and increase from line to line.
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

// Tail reads a container's log across all its runs, from the oldest stored line. It never blocks the writer: lines
// removed before they were read are counted. It must not be used concurrently.
type Tail struct {
	logs      *Logs
	container string
	after     int64 // lines up to this time are skipped

	// Guarded by logs.mu.
	file   *os.File // nil: open the next one
	at     int      // rank of the file, or of the previous one; -1 at the start
	offset int64    // of the first unread byte
	lost   int64

	lines [][]byte // read but not returned yet
}

// Tail returns a reader of a container's log that starts after a time; 0 means the oldest line. The caller closes it.
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

// Close stops reading.
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

// Next returns the next line, or false if there is none yet.
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

// tailChunk is the size of a read: several of the longest lines.
const tailChunk = 64 << 10

// read fills lines. It returns false if there is nothing more to read.
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
			whole = n // no line that Logs wrote: skip it
		}
		if whole > 0 {
			t.offset += int64(whole)
			t.lines = slices.Collect(bytes.Lines(b[:whole]))
			return true, nil
		}
		if _, more, err := t.next(); !more || err != nil {
			return false, err
		}
		t.closeFile() // at its end, and another file follows
	}
}

// closeFile closes the file. logs.mu is held.
func (t *Tail) closeFile() {
	if t.file != nil {
		_ = t.file.Close()
		t.file = nil
	}
}

// open opens the oldest unread file. logs.mu is held.
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

// next returns the file after the one that is being, or was last, read. logs.mu is held.
func (t *Tail) next() (part, bool, error) {
	parts, err := t.logs.parts(t.container)
	i := slices.IndexFunc(parts, func(p part) bool { return p.rank > t.at })
	if i < 0 || err != nil {
		return part{}, false, err
	}
	return parts[i], true, nil
}

// part is one file of a container's log. Later files have higher ranks; in each run, the rotated file comes before
// the one being written.
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

// forget makes the tails of a container count the unread lines of a file that is about to be removed, and skip the
// file. l.mu is held.
func (l *Logs) forget(container string, run uint32, old bool) {
	path, r := l.path(container, run), rank(run, old)
	if old {
		path += oldSuffix
	}
	for _, t := range l.tails {
		switch {
		case t.container != container || t.at > r || t.at == r && t.file == nil:
			continue
		case t.at < r: // it goes on where it is, perhaps in an earlier run
			t.lost += linesAfter(path, 0, t.after)
			continue
		}
		t.lost += linesAfter(path, t.offset, t.after)
		t.closeFile()
		if old {
			t.at-- // another file will get its name
		}
	}
}

// linesAfter counts the complete lines of a file, from an offset, that are newer than a time.
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
