package pipeline

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Limits of a request (CloudWatch Logs API reference, PutLogEvents): its bytes, with 26 more for each event, and the
// time from its first to its last event.
const (
	maxPutBytes   = 1 << 20
	eventOverhead = 26
	maxPutSpan    = 24*time.Hour - time.Second
)

// cloudWatch is an output to streams of CloudWatch Logs, with the keys of Fluent Bit's plugin cloudwatch_logs.
type cloudWatch struct {
	group, stream, prefix, logKey string
	create                        bool
	retention                     int // days; 0 keeps the group's
}

func (o *Output) cloudWatch(s *section) {
	w := &cloudWatch{
		group: s.text("log_group_name", ""), stream: s.text("log_stream_name", ""), prefix: s.text("log_stream_prefix", ""),
		logKey: s.text("log_key", ""), create: s.on("auto_create_group", false),
		retention: s.number("log_retention_days", 0, 0, 3653),
	}
	switch {
	case w.group == "":
		s.fail("the key log_group_name is missing")
	case s.text("region", "") == "":
		s.fail("the key region is missing")
	case (w.stream == "") == (w.prefix == ""):
		s.fail("one of the keys log_stream_name and log_stream_prefix is needed")
	}
	s.oneOf("log_group_class", "standard", "standard")
	s.ignore("log_format", "auto_retry_requests", "extra_user_agent")
	o.To = "log group " + w.group
	o.encode, o.answer = w.encode, putAnswer
}

// Call is a call of an AWS API, without its address and signature.
type Call struct {
	Service, Target string // "logs", "Logs_20140328.PutLogEvents"
	Body            []byte
}

func logsCall(action string, input map[string]any) Call {
	body, _ := json.Marshal(input) // strings and numbers: cannot fail
	return Call{Service: "logs", Target: "Logs_20140328." + action, Body: body}
}

type putEvent struct {
	Timestamp int64  `json:"timestamp"`
	Message   string `json:"message"`

	record int // its index
}

// encode orders the records of each stream by time, as PutLogEvents requires.
func (w *cloudWatch) encode(records []*Record) ([]Delivery, error) {
	streams := map[string][]putEvent{}
	var names []string
	for i, r := range records {
		message, err := w.message(r)
		if err != nil {
			return nil, err
		}
		if message == "" {
			continue // as in Fluent Bit, a record without log_key is dropped
		}
		name := cmp.Or(w.stream, w.prefix+r.Tag)
		if streams[name] == nil {
			names = append(names, name)
		}
		streams[name] = append(streams[name], putEvent{r.Time.UnixMilli(), message, i})
	}
	var all []Delivery
	for _, name := range names {
		events := streams[name]
		slices.SortStableFunc(events, func(a, b putEvent) int { return cmp.Compare(a.Timestamp, b.Timestamp) })
		for len(events) > 0 {
			n := oneRequest(events)
			all = append(all, w.put(name, events[:n]))
			events = events[n:]
		}
	}
	return all, nil
}

func (w *cloudWatch) message(r *Record) (string, error) {
	if w.logKey == "" {
		line, err := jsonLine(r.Fields)
		return string(line), err
	}
	value, ok := r.Fields[w.logKey]
	if !ok {
		return "", nil
	}
	return asText(value), nil
}

// oneRequest returns how many of the events, which are in order, go into one request.
func oneRequest(events []putEvent) int {
	bytes := 0
	for i, e := range events {
		bytes += len(e.Message) + eventOverhead
		if i > 0 && (bytes > maxPutBytes || e.Timestamp-events[0].Timestamp > maxPutSpan.Milliseconds()) {
			return i
		}
	}
	return len(events)
}

// put returns the request for a stream's events, with the calls that create the stream if it does not exist.
func (w *cloudWatch) put(stream string, events []putEvent) Delivery {
	call := logsCall("PutLogEvents", map[string]any{
		"logGroupName": w.group, "logStreamName": stream, "logEvents": events,
	})
	d := Delivery{Call: &call, Records: len(events)}
	for _, e := range events {
		d.Of = append(d.Of, e.record)
	}
	if w.create {
		d.Create = append(d.Create, logsCall("CreateLogGroup", map[string]any{"logGroupName": w.group}))
		if w.retention > 0 {
			d.Create = append(d.Create, logsCall("PutRetentionPolicy", map[string]any{
				"logGroupName": w.group, "retentionInDays": w.retention,
			}))
		}
	}
	d.Create = append(d.Create, logsCall("CreateLogStream", map[string]any{
		"logGroupName": w.group, "logStreamName": stream,
	}))
	return d
}

// putAnswer counts the events that were too old, too new or expired: they would be refused again.
func putAnswer(body []byte, records int) (again []int, rejected int, why string) {
	var said struct {
		Rejected *struct {
			TooNewFrom *int `json:"tooNewLogEventStartIndex"`
			TooOldTo   int  `json:"tooOldLogEventEndIndex"`
			ExpiredTo  int  `json:"expiredLogEventEndIndex"`
		} `json:"rejectedLogEventsInfo"`
	}
	if err := json.Unmarshal(body, &said); err != nil || said.Rejected == nil {
		return nil, 0, ""
	}
	var reasons []string
	if n := max(said.Rejected.TooOldTo, said.Rejected.ExpiredTo); n > 0 {
		rejected, reasons = n, append(reasons, "too old")
	}
	if from := said.Rejected.TooNewFrom; from != nil {
		rejected, reasons = rejected+records-*from, append(reasons, "too new")
	}
	return nil, min(max(rejected, 0), records), strings.Join(reasons, ", ")
}
