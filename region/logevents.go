package region

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// LogEvent is a line of a log stream. Its times are milliseconds since 1970.
type LogEvent struct {
	Timestamp int64
	Message   string
	// Set by the region:
	Ingested int64      `json:"-"`
	Stream   string     `json:"-"`
	At       LogEventAt `json:"-"`
}

// LogEventAt is an event's position in its group: by time, ties by order of ingestion.
type LogEventAt struct {
	Timestamp int64
	Sequence  uint64 // of its batch
	Index     int    // in the batch
}

// Compare orders events.
func (a LogEventAt) Compare(b LogEventAt) int {
	return cmp.Or(cmp.Compare(a.Timestamp, b.Timestamp), cmp.Compare(a.Sequence, b.Sequence),
		cmp.Compare(a.Index, b.Index))
}

// logBatch holds the events of one PutLogEvents.
type logBatch struct {
	Group, Stream string
	Sequence      uint64
	Ingested      int64
	Events        []LogEvent
}

func (b *logBatch) key() string { return fmt.Sprintf("%016x", b.Sequence) }

func (b *logBatch) size() int64 { return batchBytes(b.Events) }

// Limits of a batch (CloudWatch Logs API reference, PutLogEvents).
const (
	maxBatchBytes  = 1 << 20
	maxBatchEvents = 10_000
	eventOverhead  = 26
	maxBatchSpan   = 24 * time.Hour
	maxEventAhead  = 2 * time.Hour
	maxEventAge    = 14 * 24 * time.Hour
)

func batchBytes(events []LogEvent) (n int64) {
	for _, e := range events {
		n += int64(len(e.Message)) + eventOverhead
	}
	return n
}

// Rejected tells which events of a batch PutLogEvents rejected, as indexes: those from TooNewFrom on, and those
// before TooOldTo and ExpiredTo. Nil means none.
type Rejected struct{ TooNewFrom, TooOldTo, ExpiredTo *int }

// PutLogEvents stores events of a stream, which must be in order of their times.
func (s *logs) PutLogEvents(group, stream string, events []LogEvent) (Rejected, error) {
	if err := checkBatch(events); err != nil {
		return Rejected{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	x, err := s.stream(group, stream)
	if err != nil {
		return Rejected{}, err
	}
	now := s.clock.Now()
	kept, rejected := timely(events, now, s.groups[group].RetentionDays)
	if len(kept) == 0 {
		return rejected, nil
	}
	s.last++
	b := &logBatch{
		Group: group, Stream: stream, Sequence: s.last, Ingested: now.UnixMilli(), Events: slices.Clone(kept),
	}
	s.batches, s.bytes = append(s.batches, b), s.bytes+b.size()+batchOverhead
	s.store.put(bucketLogBatches, b.key(), b)
	if x.FirstEvent == 0 || kept[0].Timestamp < x.FirstEvent {
		x.FirstEvent = kept[0].Timestamp
	}
	x.LastEvent, x.LastIngest = max(x.LastEvent, kept[len(kept)-1].Timestamp), b.Ingested
	s.store.put(bucketLogStreams, streamKey(group, stream), x)
	s.expire()
	return rejected, s.commit()
}

func checkBatch(events []LogEvent) error {
	switch n := len(events); {
	case n == 0:
		return invalidMember("'[]'", "logEvents", "have length greater than or equal to 1")
	case n > maxBatchEvents:
		return invalidMember("'[...]'", "logEvents", fmt.Sprintf("have length less than or equal to %d", maxBatchEvents))
	}
	if n := batchBytes(events); n > maxBatchBytes {
		return invalidLog("Upload too large: %d bytes exceeds limit of %d", n, maxBatchBytes)
	}
	for i, e := range events {
		switch {
		case e.Message == "":
			return invalidMember("''", fmt.Sprintf("logEvents.%d.member.message", i+1),
				"have length greater than or equal to 1")
		case i > 0 && e.Timestamp < events[i-1].Timestamp:
			return invalidLog("Log events in a single PutLogEvents request must be in chronological order.")
		}
	}
	if span := time.Duration(events[len(events)-1].Timestamp-events[0].Timestamp) * time.Millisecond; span > maxBatchSpan {
		return invalidLog("The batch of log events in a single PutLogEvents request cannot span more than 24 hours.")
	}
	return nil
}

// timely returns the events that are neither too old nor too new. events must be in order of their times.
func timely(events []LogEvent, now time.Time, retentionDays int) ([]LogEvent, Rejected) {
	before := func(t time.Time) int {
		i, _ := slices.BinarySearchFunc(events, t.UnixMilli(), func(e LogEvent, at int64) int {
			return cmp.Compare(e.Timestamp, at)
		})
		return i
	}
	var r Rejected
	from, to := before(now.Add(-maxEventAge)), before(now.Add(maxEventAhead).Add(time.Millisecond))
	if from > 0 {
		r.TooOldTo = new(from)
	}
	if to < len(events) {
		r.TooNewFrom = new(to)
	}
	if retentionDays > 0 {
		if n := before(now.AddDate(0, 0, -retentionDays)); n > 0 {
			r.ExpiredTo, from = new(n), max(from, n)
		}
	}
	return events[min(from, to):to], r
}

// expire drops batches whose events have all expired, at most once a minute; while the total size exceeds the limit,
// it drops the oldest batches at once.
func (s *logs) expire() {
	excess, now := s.bytes-s.most, s.clock.Now()
	if excess <= 0 && now.Sub(s.expired) < time.Minute {
		return
	}
	s.expired = now
	oldest := map[string]int64{}
	for name, g := range s.groups {
		if g.RetentionDays > 0 {
			oldest[name] = now.AddDate(0, 0, -g.RetentionDays).UnixMilli()
		}
	}
	s.drop(func(b *logBatch) bool {
		if excess > 0 {
			excess -= b.size() + batchOverhead
			return true
		}
		return b.Events[len(b.Events)-1].Timestamp < oldest[b.Group]
	})
}

// drop removes the batches that which selects.
func (s *logs) drop(which func(*logBatch) bool) {
	s.batches = slices.DeleteFunc(s.batches, func(b *logBatch) bool {
		if !which(b) {
			return false
		}
		s.bytes -= b.size() + batchOverhead
		s.store.remove(bucketLogBatches, b.key())
		return true
	})
}

// LogQuery selects events of a group.
type LogQuery struct {
	Group  string
	Stream func(name string) bool // nil = all
	// From and Until bound times: From is inclusive, Until exclusive; 0 means no bound.
	From, Until int64
	Match       func(message string) bool // nil = all
}

// LogEvents returns the events that a query selects, in order.
func (s *logs) LogEvents(q LogQuery) ([]LogEvent, error) {
	s.mu.Lock()
	g, err := s.group(q.Group)
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	from := q.From
	if g.RetentionDays > 0 {
		from = max(from, s.clock.Now().AddDate(0, 0, -g.RetentionDays).UnixMilli())
	}
	batches := slices.Clone(s.batches)
	s.mu.Unlock() // batches are immutable
	var out []LogEvent
	for _, b := range batches {
		if b.Group != q.Group || q.Stream != nil && !q.Stream(b.Stream) {
			continue
		}
		for i, e := range b.Events {
			if e.Timestamp < from || q.Until > 0 && e.Timestamp >= q.Until || q.Match != nil && !q.Match(e.Message) {
				continue
			}
			e.Ingested, e.Stream, e.At = b.Ingested, b.Stream, LogEventAt{e.Timestamp, b.Sequence, i}
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b LogEvent) int { return a.At.Compare(b.At) })
	return out, nil
}

// LogPattern compiles a filter pattern for unstructured events (CloudWatch Logs User Guide, Filter pattern syntax). A
// message matches if it contains all terms, none of those after a minus sign, and one of those after a question mark
// if there are any. Terms are words or in double quotes. The empty pattern matches every message; its function is
// nil.
func LogPattern(pattern string) (func(message string) bool, error) {
	pattern = strings.TrimSpace(pattern)
	if pattern == "" {
		return nil, nil
	}
	if strings.ContainsAny(pattern[:1], "{[%") {
		return nil, invalidLog("The simulated region filters by terms, such as ERROR \"a phrase\" ?either -not; it does not "+
			"serve the pattern %s for JSON, columns or regular expressions", pattern)
	}
	var all, none, some []string
	for rest := pattern; rest != ""; rest = strings.TrimLeft(rest, " ") {
		list := &all
		switch rest[0] {
		case '-':
			list, rest = &none, rest[1:]
		case '?':
			list, rest = &some, rest[1:]
		}
		var term, after string
		if strings.HasPrefix(rest, `"`) {
			var closed bool
			if term, after, closed = strings.Cut(rest[1:], `"`); !closed {
				return nil, invalidLog("Invalid filter pattern: the quotation mark of %s is not closed", rest)
			}
		} else {
			term, after, _ = strings.Cut(rest, " ")
		}
		if term == "" {
			return nil, invalidLog("Invalid filter pattern: %s has an empty term", pattern)
		}
		*list, rest = append(*list, term), after
	}
	return func(message string) bool {
		has := func(term string) bool { return strings.Contains(message, term) }
		lacks := func(term string) bool { return !has(term) }
		return !slices.ContainsFunc(all, lacks) && !slices.ContainsFunc(none, has) &&
			(len(some) == 0 || slices.ContainsFunc(some, has))
	}, nil
}
