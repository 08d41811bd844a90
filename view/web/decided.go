package web

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	kept "github.com/nodeless/nodeless/explain/record"
	"github.com/nodeless/nodeless/explain/record/store"
	"github.com/nodeless/nodeless/internal/kit/clock"
)

// Log is where a cluster keeps its decisions; keep.Reader is one.
type Log interface {
	Read(context.Context) (*store.Reading, error)
	// Follow calls news with entries from now on, old ones among them, until the context is done or the watch ends.
	Follow(ctx context.Context, news func([]kept.Entry)) error
}

// Bounds of what is kept of a log, and how long it is left alone after it could not be followed.
const (
	moreEntries = 20_000 // than were read: then it is read again, and what is not kept any more is forgotten
	logPause    = 5 * time.Second
)

// decided follows a log. It is safe for concurrent use.
type decided struct {
	log   Log
	clock clock.Clock

	mu      sync.Mutex
	begun   bool
	first   chan struct{} // closed when it was read, or could not be
	entries map[string]kept.Entry
	records []kept.Record // of entries; nil = to be made
	damaged []error
	err     error
	version int
	grown   chan struct{} // closed when there is more
}

func newDecided(log Log, c clock.Clock) *decided {
	return &decided{log: log, clock: c, first: make(chan struct{}), grown: make(chan struct{})}
}

var errNoLog = failure{http.StatusNotImplemented, errors.New("this page was started without the cluster's decisions")}

// begin follows the log for as long as life is, the first time somebody asks.
func (d *decided) begin(life context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.begun || d.log == nil || life == nil {
		return
	}
	d.begun = true
	go d.follow(life)
}

func (d *decided) follow(ctx context.Context) {
	again := make(chan struct{}, 1)
	for ctx.Err() == nil {
		reading, err := d.log.Read(ctx)
		d.replace(reading, err)
		if err == nil {
			err = d.watch(ctx, len(reading.Records))
		}
		if err == nil {
			continue
		}
		timer := d.clock.AfterFunc(logPause, func() { again <- struct{}{} })
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-again:
		}
	}
}

var errFull = errors.New("much is new")

// watch adds what is new, until there is so much that the log had better be read again.
func (d *decided) watch(ctx context.Context, read int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := d.log.Follow(ctx, func(more []kept.Entry) {
		if d.add(more) > 8*read+moreEntries { // a decision has some outcomes
			cancel(errFull)
		}
	})
	if errors.Is(context.Cause(ctx), errFull) {
		return nil
	}
	return cmp.Or(err, errors.New("the watch ended"))
}

func (d *decided) replace(r *store.Reading, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil || d.entries == nil { // else what is known is shown on
		d.err = err
	}
	if err == nil {
		d.records, d.damaged, d.entries = nil, r.Damaged, map[string]kept.Entry{}
		for i := range r.Records {
			d.put(kept.Entry{Decision: &r.Records[i].Decision})
			for j := range r.Records[i].Outcomes {
				d.put(kept.Entry{Outcome: &r.Records[i].Outcomes[j]})
			}
		}
	}
	d.tell()
}

// add is how many entries there are with these.
func (d *decided) add(more []kept.Entry) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := len(d.entries)
	for _, e := range more {
		d.put(e)
	}
	if len(d.entries) > before {
		d.records = nil
		d.tell()
	}
	return len(d.entries)
}

func (d *decided) put(e kept.Entry) {
	if _, known := d.entries[e.Key()]; !known {
		d.entries[e.Key()] = e
	}
}

// tell wakes whoever waits for news.
func (d *decided) tell() {
	if d.version++; d.version == 1 {
		close(d.first)
	}
	close(d.grown)
	d.grown = make(chan struct{})
}

// news are the number of the last change, and what is closed at the next.
func (d *decided) news() (int, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.version, d.grown
}

// all are the records by time, once they were read.
func (d *decided) all(life, ctx context.Context) ([]kept.Record, []error, error) {
	if d.log == nil || life == nil {
		return nil, nil, errNoLog
	}
	d.begin(life)
	select {
	case <-d.first:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		status := http.StatusBadGateway
		if errors.Is(d.err, store.ErrNotKept) || errors.Is(d.err, store.ErrNotAllowed) {
			status = http.StatusNotFound
		}
		return nil, nil, failure{status, d.err}
	}
	if d.records == nil {
		entries := make([]kept.Entry, 0, len(d.entries))
		for _, e := range d.entries {
			entries = append(entries, e)
		}
		slices.SortFunc(entries, func(a,
			b kept.Entry,
		) int {
			return cmp.Or(a.When().Compare(b.When()), cmp.Compare(a.Key(), b.Key()))
		})
		d.records = kept.Fold(entries)
	}
	return d.records, d.damaged, nil
}
