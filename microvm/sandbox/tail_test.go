package sandbox

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/microvm/wire"
)

// say stores lines of a run, each with its number, which is also its timestamp.
func say(t *testing.T, l *Logs, run uint32, from, to int64, size int) {
	t.Helper()
	for n := from; n <= to; n++ {
		line := fmt.Sprintf("%d %s", n, strings.Repeat(".", size))
		if err := l.write(wire.LogRecord{Nanos: n, Restart: run, Stream: wire.Stdout, Line: []byte(line)}); err != nil {
			t.Fatal(err)
		}
	}
}

func tail(t *testing.T, l *Logs, after int64) *Tail {
	t.Helper()
	reader, err := l.Tail("app", after)
	if err != nil {
		t.Fatal(err)
	}
	return reader
}

// hear reads all available lines, and checks their numbers.
func hear(t *testing.T, tail *Tail, from, to int64) {
	t.Helper()
	for want := from; ; want++ {
		s, ok, err := tail.Next()
		switch {
		case err != nil:
			t.Fatal(err)
		case !ok && want != to+1:
			t.Fatalf("it ends before line %d, want up to %d", want, to)
		case !ok:
			return
		case s.Nanos != want || !strings.HasPrefix(string(s.Text), fmt.Sprintf("%d ", want)):
			t.Fatalf("got line %d %.10q, want %d", s.Nanos, s.Text, want)
		}
	}
}

func TestTailReadsAllRuns(t *testing.T) {
	l := newLogs(t.TempDir(), []string{"app"})
	early := tail(t, l, 0)
	defer early.Close()
	hear(t, early, 1, 0)
	say(t, l, 0, 1, 1000, 10)
	hear(t, early, 1, 1000)
	say(t, l, 0, 1001, 1002, 10)
	say(t, l, 1, 1003, 1004, 10)
	hear(t, early, 1001, 1004)
	say(t, l, 2, 1005, 1005, 10)
	hear(t, early, 1005, 1005)
	if early.Lost() != 0 {
		t.Errorf("%d lost", early.Lost())
	}
	late := tail(t, l, 1003)
	defer late.Close()
	hear(t, late, 1004, 1005)
}

// A log file holds 10 MiB, and two are kept: some of 32 MiB have been removed.
func TestTailCountsRotatedLines(t *testing.T) {
	const all = 32 << 20 / wire.MaxLogLine
	l := newLogs(t.TempDir(), []string{"app"})
	slow, late, skips := tail(t, l, 0), tail(t, l, 0), tail(t, l, 2)
	say(t, l, 0, 1, 1, 10)
	hear(t, slow, 1, 1)
	long := []byte(strings.Repeat("x", wire.MaxLogLine))
	for n := range int64(all) {
		if err := l.write(wire.LogRecord{Nanos: 1000 + n, Stream: wire.Stdout, Line: long}); err != nil {
			t.Fatal(err)
		}
	}
	count := func(tail *Tail) (n int64) {
		t.Helper()
		for {
			s, ok, err := tail.Next()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				return n
			}
			if s.Nanos >= 1000 {
				n++
			}
		}
	}
	for name, tail := range map[string]*Tail{"slow": slow, "late": late, "skips": skips} {
		got, lost := count(tail), tail.Lost()
		if name == "late" {
			lost-- // the very first line, which the others have read or skip
		}
		if lost == 0 || got+lost != all {
			t.Errorf("%s: %d lines read and %d lost, want %d together", name, got, lost, all)
		}
		tail.Close()
	}
	if len(l.tails) != 0 {
		t.Errorf("%d tails are left", len(l.tails))
	}
}

// The guest numbers the runs. However it numbers them, two are kept.
func TestTwoRunsAreKept(t *testing.T) {
	l := newLogs(t.TempDir(), []string{"app"})
	kept := func() string {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(l.dir, "app", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range files {
			files[i] = filepath.Base(files[i])
		}
		return strings.Join(files, " ")
	}
	for i, run := range []uint32{0, 3, 6, 2, 1, math.MaxInt32} {
		say(t, l, run, int64(i)+1, int64(i)+1, 10)
	}
	if got := kept(); got != "2147483647.log 6.log" {
		t.Errorf("kept: %s", got)
	}
	var broken *wire.ProtocolError
	if err := l.write(wire.LogRecord{Restart: math.MaxInt32 + 1, Stream: wire.Stdout}); !errors.As(err, &broken) {
		t.Errorf("a run that no status can tell of: %v", err)
	}
}

func TestTailCountsLinesOfRemovedRuns(t *testing.T) {
	l := newLogs(t.TempDir(), []string{"app"})
	reader := tail(t, l, 0)
	defer reader.Close()
	for run := range uint32(5) { // the last two are kept
		say(t, l, run, int64(run)*10+1, int64(run)*10+10, 10)
	}
	hear(t, reader, 31, 50)
	if reader.Lost() != 30 {
		t.Errorf("%d lost, want 30", reader.Lost())
	}
}

// The log of a new run is rotated while the log of the run before it is being read, which is read to its end.
func TestTailReadsPreviousRunDespiteRotation(t *testing.T) {
	const before, of = 2000, 32 << 20 / wire.MaxLogLine // lines of the two runs
	l := newLogs(t.TempDir(), []string{"app"})
	reader := tail(t, l, 0)
	defer reader.Close()
	say(t, l, 0, 1, before, 100)
	if s, ok, err := reader.Next(); !ok || err != nil || s.Nanos != 1 {
		t.Fatalf("first: %+v %v %v", s, ok, err)
	}
	say(t, l, 1, before+1, before+of, wire.MaxLogLine-10)
	for want := int64(2); want <= before; want++ {
		if s, ok, err := reader.Next(); !ok || err != nil || s.Nanos != want {
			t.Fatalf("got line %d, %v %v, want %d of the previous run", s.Nanos, ok, err, want)
		}
	}
	lost := reader.Lost()
	hear(t, reader, before+lost+1, before+of)
	if lost == 0 || reader.Lost() != lost {
		t.Errorf("%d lost, then %d", lost, reader.Lost())
	}
}
