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

// Log is a cluster's log of decisions; keep.Reader implements it.
type Log interface {
	Read(context.Context) (*store.Reading, error)
	// Follow calls news with new entries, and possibly old ones, until the context is done or the watch ends.
	Follow(ctx context.Context, news func([]kept.Entry)) error
}

// Limits on what is kept of a log, and the pause after following it failed.
const (
	moreEntries = 20_000 // beyond those read; then the log is read again, which drops entries that it no longer holds
	logPause    = 5 * time.Second
)

// decided follows a log. It is safe for concurrent use.
type decided struct {
	log   Log
	clock clock.Clock

	mu      sync.Mutex
	begun   bool
	first   chan struct{} // closed when the log has been read or reading has failed
	entries map[string]kept.Entry
	records []kept.Record // made from entries; nil = to be rebuilt
	damaged []error
	err     error
	version int
	grown   chan struct{} // closed at the next change
}

func newDecided(log Log, c clock.Clock) *decided {
	return &decided{log: log, clock: c, first: make(chan struct{}), grown: make(chan struct{})}
}

var errNoLog = failure{http.StatusNotImplemented, errors.New("this page was started without the cluster's decisions")}

// begin starts following the log on its first call, for as long as life lasts.
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

// watch adds new entries until there are so many that the log should be read again.
func (d *decided) watch(ctx context.Context, read int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := d.log.Follow(ctx, func(more []kept.Entry) {
		if d.add(more) > 8*read+moreEntries { // a decision has several outcomes
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
	if err == nil || d.entries == nil { // otherwise keep showing what is known
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

// add adds entries and returns how many there are now.
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

// tell wakes everyone who waits for news.
func (d *decided) tell() {
	if d.version++; d.version == 1 {
		close(d.first)
	}
	close(d.grown)
	d.grown = make(chan struct{})
}

// news returns the number of the last change and a channel that is closed at the next.
func (d *decided) news() (int, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.version, d.grown
}

// all returns the records, oldest first, and what is damaged, once the log has been read.
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
