package web

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nodeless/nodeless/internal/clock"
	kept "github.com/nodeless/nodeless/internal/record"
	"github.com/nodeless/nodeless/internal/record/keep"
)

// Log is where a cluster keeps its decisions; keep.Reader is one.
type Log interface {
	Read(context.Context) (*keep.Reading, error)
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

func (d *decided) replace(r *keep.Reading, err error) {
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
		if errors.Is(d.err, keep.ErrNotKept) || errors.Is(d.err, keep.ErrNotAllow) {
			status = http.StatusNotFound
		}
		return nil, nil, failure{status, d.err}
	}
	if d.records == nil {
		entries := make([]kept.Entry, 0, len(d.entries))
		for _, e := range d.entries {
			entries = append(entries, e)
		}
		slices.SortFunc(entries, func(a, b kept.Entry) int { return cmp.Or(a.When().Compare(b.When()), cmp.Compare(a.Key(), b.Key())) })
		d.records = kept.Fold(entries)
	}
	return d.records, d.damaged, nil
}

// usualDecisions and mostDecisions are how many are listed.
const (
	usualDecisions = 100
	mostDecisions  = 1000
)

// decisionList are the newest that all words are found in, newest first.
type decisionList struct {
	Of      int        `json:"of"` // that were found
	Kept    int        `json:"kept"`
	Items   []decision `json:"items"`
	Damaged []string   `json:"damaged,omitempty"`
}

type decision struct {
	kept.Record `json:",inline"`
	Became        string `json:"became,omitempty"`
	Count         int    `json:"count"` // of pods
}

// list finds words in what decisions say and in the names of their pods and machines.
func (s *Server) list(ctx context.Context, words string, most int) (*decisionList, error) {
	all, damaged, err := s.decided.all(s.lifetime(), ctx)
	if err != nil {
		return nil, err
	}
	out := &decisionList{Kept: len(all), Items: []decision{}}
	for _, err := range damaged {
		out.Damaged = append(out.Damaged, err.Error())
	}
	wanted := strings.Fields(strings.ToLower(words))
	for _, r := range slices.Backward(all) {
		if !found(&r, wanted) {
			continue
		}
		if out.Of++; len(out.Items) < most {
			d := decision{Record: r, Became: r.Became(), Count: len(r.Pods) + r.PodsMore}
			for _, m := range r.Goes {
				d.Count += len(m.Pods) + m.PodsMore
			}
			out.Items = append(out.Items, d)
		}
	}
	return out, nil
}

func found(r *kept.Record, words []string) bool {
	if len(words) == 0 {
		return true
	}
	parts := append([]string{string(r.Kind), r.Method, r.Rule, r.Line()}, r.Pods...)
	for _, m := range r.Goes {
		parts = append(append(parts, m.Node, m.Claim, m.Pool, m.Type), m.Pods...)
	}
	for _, b := range r.Comes {
		parts = append(parts, b.Claim, b.Pool, b.Chosen.Type)
	}
	hay := strings.ToLower(strings.Join(parts, "\n"))
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(hay, w) })
}

func (s *Server) decisions(r *http.Request) (any, error) {
	most := usualDecisions
	if text := r.URL.Query().Get("limit"); text != "" {
		n, err := number(r, "limit")
		if err != nil || n < 1 || n > mostDecisions {
			return nil, failure{http.StatusBadRequest, errors.New("parameter limit=" + strconv.Quote(text) + ": give a whole number from 1 to 1000")}
		}
		most = int(n)
	}
	list, err := s.list(r.Context(), r.URL.Query().Get("q"), most)
	if err != nil {
		return nil, err
	}
	return escaped(list)
}

// ledger is what was saved until now, with the newest decisions first and no more of them than are listed.
func (s *Server) ledger(ctx context.Context) (*kept.Ledger, error) {
	all, _, err := s.decided.all(s.lifetime(), ctx)
	if err != nil {
		return nil, err
	}
	l := kept.Savings(all, s.o.Clock.Now(), kept.DefaultHorizon)
	slices.Reverse(l.Savings)
	return &l, nil
}

func (s *Server) savings(r *http.Request) (any, error) {
	l, err := s.ledger(r.Context())
	if err != nil {
		return nil, err
	}
	sums := map[string]float64{}
	for i := range l.Savings {
		sums[l.Savings[i].Method] += l.Savings[i].Dollars
	}
	of := len(l.Savings)
	l.Savings = l.Savings[:min(of, usualDecisions)]
	return escaped(map[string]any{"ledger": l, "of": of, "methods": sums})
}
