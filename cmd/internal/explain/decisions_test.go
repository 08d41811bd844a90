package explain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nodeless/nodeless/explain/record"
	"github.com/nodeless/nodeless/explain/record/store"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// prompt is a clock on which all waiting is over at once.
type prompt struct{ clock.Real }

func (p prompt) AfterFunc(_ time.Duration, f func()) clock.Timer { return p.Real.AfterFunc(0, f) }

// watches is a log whose watches end one after the other.
type watches []func(news func([]record.Entry)) error

func (w *watches) Follow(_ context.Context, news func([]record.Entry)) error {
	next := (*w)[0]
	*w = (*w)[1:]
	return next(news)
}

func launches(ids ...string) []record.Entry {
	var out []record.Entry
	for i, id := range ids {
		at := time.Date(2026, 11, 22, 12, 0, i, 0, time.UTC)
		out = append(out, record.Entry{Decision: &record.Decision{ID: id, Time: at, Kind: record.Launch}})
	}
	return out
}

// API servers end watches. The next watch begins with all that is kept, and everything is printed once. A failure is
// reported once for as long as it lasts.
func TestDecisionsAreFollowedBeyondTheEndOfAWatch(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	down := func(func([]record.Entry)) error { return errors.New("connection refused") }
	log := watches{
		func(news func([]record.Entry)) error { news(launches("a", "b")); return nil },
		func(news func([]record.Entry)) error { news(launches("a", "b", "c")); return nil },
		down, down,
		func(news func([]record.Entry)) error {
			news(launches("a", "b", "c", "d"))
			interrupt()
			return nil
		},
	}
	var out, errs bytes.Buffer
	o := decisionsOptions{output: "name"}
	err := o.follow(ctx, follower{&log, prompt{}, &out, &errs}, record.Fold(launches("a")), nil)
	if want := "decision/b\ndecision/c\ndecision/d\n"; err != nil || out.String() != want {
		t.Errorf("%v, printed %q, want %q", err, out.String(), want)
	}
	if want := "nodeless: decisions: the watch failed and is tried again: connection refused\n"; errs.String() != want {
		t.Errorf("reported %q, want %q", errs.String(), want)
	}
}

// Following ends with an error if the log is gone, and if nothing more can be printed.
func TestFollowingDecisionsEndsWithoutALogOrAReader(t *testing.T) {
	gone := fmt.Errorf("cluster c: %w", store.ErrNotKept)
	log := watches{func(func([]record.Entry)) error { return gone }}
	var out bytes.Buffer
	o := decisionsOptions{output: "yaml"}
	if err := o.follow(t.Context(), follower{&log, prompt{}, &out, &out}, nil, nil); !errors.Is(err, gone) {
		t.Errorf("without a log: %v", err)
	}
	log = watches{func(news func([]record.Entry)) error { news(launches("a")); return nil }}
	if err := o.follow(t.Context(), follower{&log, prompt{}, closed{}, &out}, nil, nil); !errors.Is(err, errClosed) {
		t.Errorf("without a reader: %v", err)
	}
}

var errClosed = errors.New("closed")

// closed is a pipe that nobody reads.
type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, errClosed }
