package workqueue

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
)

// work is a running queue on a virtual clock.
type work struct {
	*Queue
	clock *clock.Virtual
	done  []string
}

// tell runs f beside a queue whose work function returns what answer returns.
func tell(t *testing.T, answer func(n int, key string) (time.Duration, error), f func(*work)) {
	synctest.Test(t, func(t *testing.T) {
		w := &work{clock: clock.NewVirtual(time.Unix(0, 0))}
		w.Queue = New("test", w.clock, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		go w.Run(ctx, 1, func(_ context.Context, key string) (time.Duration, error) {
			w.done = append(w.done, key)
			return answer(len(w.done), key)
		})
		f(w)
		stop()
		synctest.Wait()
	})
}

// expect advances the clock and checks how often the work function has run by then.
func (w *work) expect(t *testing.T, after time.Duration, n int) {
	t.Helper()
	synctest.Wait()
	w.clock.Advance(after)
	synctest.Wait()
	if len(w.done) != n {
		t.Errorf("%v: %d pieces of work, want %d", w.clock.Now().Sub(time.Unix(0, 0)), len(w.done), n)
	}
}

func TestWorkThatFailsIsTriedAgainMoreAndMoreSeldom(t *testing.T) {
	fail := func(int, string) (time.Duration, error) { return 0, errors.New("no") }
	tell(t, fail, func(w *work) {
		w.Add("a")
		w.expect(t, 0, 1)
		w.expect(t, firstBackoff-1, 1)
		w.expect(t, 1, 2)
		w.expect(t, 2*firstBackoff, 3)
		w.expect(t, 2*firstBackoff, 3)
	})
}

func TestTheBackOffBeginsAnewAfterSuccess(t *testing.T) {
	third := func(n int, _ string) (time.Duration, error) { // succeeds, the others fail
		if n == 3 {
			return 0, nil
		}
		return 0, errors.New("no")
	}
	tell(t, third, func(w *work) {
		w.Add("a")
		w.expect(t, firstBackoff, 2)
		w.expect(t, 2*firstBackoff, 3)
		w.Add("a")
		w.expect(t, 0, 4)
		w.expect(t, firstBackoff, 5)
	})
}

func TestWorkIsDoneAgainWhenItAsksForIt(t *testing.T) {
	once := func(n int, _ string) (time.Duration, error) {
		if n == 1 {
			return time.Minute, nil
		}
		return 0, nil
	}
	tell(t, once, func(w *work) {
		w.Add("a")
		w.expect(t, 59*time.Second, 1)
		w.expect(t, time.Second, 2)
		w.expect(t, time.Hour, 2)
	})
}

func TestTheEarliestTimeAskedForCounts(t *testing.T) {
	tell(t, func(int, string) (time.Duration, error) { return 0, nil }, func(w *work) {
		w.After("a", time.Minute)
		w.After("a", time.Second)
		w.After("a", time.Hour)
		w.expect(t, time.Second, 1)
		w.expect(t, 2*time.Hour, 1)
	})
}

func TestAPanicOverOneKeyLeavesTheOthersAlone(t *testing.T) {
	tell(t, func(_ int, key string) (time.Duration, error) {
		if key == "bad" {
			panic("bad")
		}
		return 0, nil
	}, func(w *work) {
		w.Add("bad")
		w.Add("good")
		w.expect(t, 0, 2)
		w.expect(t, mostBackoff, 3)
	})
}
