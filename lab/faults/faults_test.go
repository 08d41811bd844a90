package faults

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var (
	seedFlag  = flag.Uint64("seed", 1, "the first seed")
	seedsFlag = flag.Int("seeds", 20, "how many seeds")
	crashFlag = flag.Int("crash", -1,
		"the first call at which the controller dies, 0 = none; -1 = the next one for each seed")
	everyFlag = flag.Int("every", 97, "after how many calls it dies again; 0 = not again")
)

// Whatever fails, and wherever the controller dies: nothing is lost, launched twice or evicted against a promise, and
// in the end every pod runs. Any 97 consecutive seeds die once at every call of the story.
func TestWhateverFails(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	total, diedAt := map[string]int{}, map[string]bool{}
	for seed := *seedFlag; seed < *seedFlag+uint64(*seedsFlag); seed++ {
		crashAt := *crashFlag
		if crashAt < 0 {
			crashAt = int(seed%uint64(max(*everyFlag, 1))) + 1 //nolint:gosec // small
		}
		r := newRun(seed, crashAt, *everyFlag)
		r.do(t)
		if r.err != nil {
			t.Fatal(r.report())
		}
		total["runs"]++
		total["calls"] += r.in.calls
		total["crashes"] += sum(r.in.crashes)
		for what := range r.in.crashes {
			diedAt[what] = true
		}
		for what, n := range r.in.faults {
			total[what] += n
		}
		for what, n := range r.judge.counts {
			total[what] += n
		}
	}
	var counts []string
	for _, what := range slices.Sorted(maps.Keys(total)) {
		counts = append(counts, fmt.Sprintf("%s %d", what, total[what]))
	}
	fmt.Printf("faults: %d runs held every promise, dead at %d sorts of calls: %s\n", total["runs"], len(diedAt),
		strings.Join(counts, ", "))
}

// run is one run of the story.
type run struct {
	in    *injector
	judge *judge
	log   safeBuffer // the controller's
	err   error      // the promise that was broken
}

func newRun(seed uint64, crashAt, every int) *run {
	in := newInjector(seed, crashAt, every)
	return &run{in: in, judge: newJudge(limits, in.note)}
}

// hang guards against deadlocks: virtual time stands still while a goroutine waits for a lock forever.
const hang = 5 * time.Minute

func (r *run) do(t *testing.T) {
	guard := time.AfterFunc(hang, func() { panic(r.report()) })
	defer guard.Stop()
	synctest.Test(t, func(t *testing.T) {
		lag := time.Duration(r.in.chance("lag")%6) * time.Second
		c := start(t, r.in.seed, lag)
		r.in.touch = c.touch
		c.api.Observe(r.judge.written)
		c.wg.Go(func() { r.judge.watch(c.ctx, c.region) })
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			lives(ctx, t, c, r.in, &r.log)
		}()
		r.err = (&story{c: c, in: r.in, judge: r.judge}).tell()
		cancel()
		<-ended
		c.stop()
		if broken := r.judge.verdict(); r.err == nil && len(broken) > 0 {
			r.err = errors.New(strings.Join(broken, "\n"))
		}
	})
}

// report says what was broken, what happened before, and how to reproduce it.
func (r *run) report() string {
	file := filepath.Join(os.TempDir(), fmt.Sprintf("faults-%d-%d.log", r.in.seed, r.in.crashAt))
	trace := r.in.told()
	text := strings.Join(trace, "\n") + "\n\n== the controller's log\n" + r.log.String()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		file = err.Error()
	}
	return fmt.Sprintf("seed %d, dead at call %d and every %d calls after: %v\n\nthe last of what happened (all of it, and the log: %s):\n%s\n\n"+
		"again: go test ./lab/faults -run WhateverFails -count=1 -args -seed %d -seeds 1 -crash %d -every %d",
		r.in.seed, r.in.crashAt, r.in.every, r.err, file, strings.Join(trace[max(len(trace)-60, 0):], "\n"), r.in.seed,
		r.in.crashAt, r.in.every)
}

// safeBuffer is a log that can be read while it is written.
type safeBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func sum(counts map[string]int) int {
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}
