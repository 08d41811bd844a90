package region

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
)

// logStory returns a region on virtual time with group g and stream s.
func logStory(t *testing.T, dir string) (*Region, *clock.Virtual) {
	t.Helper()
	v := clock.NewVirtual(time.Date(2026, 11, 5, 9, 0, 0, 0, time.UTC))
	r, err := Open(Config{Name: "us-west-2", Clock: v, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	if err := errors.Join(r.CreateLogGroup("g", nil), r.CreateLogStream("g", "s")); err != nil {
		t.Fatal(err)
	}
	return r, v
}

// lines returns events of the given ages, in that order.
func lines(now time.Time, ages ...time.Duration) []LogEvent {
	var out []LogEvent
	for _, age := range ages {
		out = append(out, LogEvent{Timestamp: now.Add(-age).UnixMilli(), Message: "aged " + age.String()})
	}
	return out
}

func messages(t *testing.T, r *Region, q LogQuery) string {
	t.Helper()
	events, err := r.LogEvents(q)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range events {
		out = append(out, e.Message)
	}
	return strings.Join(out, ", ")
}

func TestNamesOfLogGroupsAndStreams(t *testing.T) {
	r, _ := logStory(t, "")
	longest := strings.Repeat("x", 512)
	if err := errors.Join(r.CreateLogGroup(longest, nil), r.CreateLogStream(longest, strings.Repeat("웹", 512))); err != nil {
		t.Error(err)
	}
	for _, err := range []error{
		r.CreateLogGroup("", nil), r.CreateLogGroup(longest+"x", nil), r.CreateLogGroup("a b", nil),
		r.CreateLogStream("g", ""), r.CreateLogStream("g", longest+"x"), r.CreateLogStream("g", "a:b"),
	} {
		if err == nil || !strings.Contains(err.Error(), "and have length from 1 to 512") {
			t.Errorf("%v, want an error about its form and length", err)
		}
	}
}

func TestWhatIsWrongWithABatchOfLogEvents(t *testing.T) {
	r, v := logStory(t, "")
	now := v.Now()
	many := make([]LogEvent, maxBatchEvents+1)
	for i := range many {
		many[i] = LogEvent{Timestamp: now.UnixMilli(), Message: "x"}
	}
	large := LogEvent{Timestamp: now.UnixMilli(), Message: strings.Repeat("x", maxBatchBytes-eventOverhead)}
	for want, events := range map[string][]LogEvent{
		"": {large},
		"Upload too large: 1048603 bytes exceeds limit of 1048576": {large, {Timestamp: now.UnixMilli(), Message: "x"}},
		"Member must have length less than or equal to 10000":      many,
		"Member must have length greater than or equal to 1":       nil,
		"must be in chronological order":                           lines(now, 0, time.Second),
		"cannot span more than 24 hours":                           lines(now, 25*time.Hour, 0),
		"at 'logEvents.1.member.message' failed":                   {{Timestamp: now.UnixMilli()}},
	} {
		_, err := r.PutLogEvents("g", "s", events)
		if want == "" && err == nil {
			continue
		}
		if err == nil || want == "" || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	_, err := r.PutLogEvents("g", "other", lines(now, 0))
	if e, ok := errors.AsType[*APIError](err); !ok || e.Code != "ResourceNotFoundException" {
		t.Error(err)
	}
}

func TestEventsTooOldTooNewOrExpiredAreRejectedByIndex(t *testing.T) {
	r, v := logStory(t, "")
	if err := r.SetLogRetention("g", 3); err != nil {
		t.Fatal(err)
	}
	const day = 24 * time.Hour
	for _, c := range []struct {
		ages []time.Duration
		want string // too new from, too old to, expired to
	}{
		{[]time.Duration{14*day + time.Hour, 14 * day, 14*day - time.Hour}, "- 1 3"},
		{[]time.Duration{3*day + time.Hour, 3 * day, 3*day - time.Hour}, "- - 1"},
		{[]time.Duration{time.Hour, -2 * time.Hour, -2*time.Hour - time.Millisecond}, "2 - -"},
		{[]time.Duration{0}, "- - -"},
	} {
		rejected, err := r.PutLogEvents("g", "s", lines(v.Now(), c.ages...))
		if err != nil {
			t.Fatal(err)
		}
		show := func(n *int) string {
			if n == nil {
				return "-"
			}
			return fmt.Sprint(*n)
		}
		got := show(rejected.TooNewFrom) + " " + show(rejected.TooOldTo) + " " + show(rejected.ExpiredTo)
		if got != c.want {
			t.Errorf("%v: %s, want %s", c.ages, got, c.want)
		}
	}
	if got := messages(t, r, LogQuery{Group: "g"}); got != "aged 72h0m0s, aged 71h0m0s, aged 1h0m0s, aged 0s, aged -2h0m0s" {
		t.Error(got)
	}
	v.Advance(71 * time.Hour)
	if got := messages(t, r, LogQuery{Group: "g"}); got != "aged 1h0m0s, aged 0s, aged -2h0m0s" {
		t.Errorf("after 71 hours: %s", got)
	}
}

func TestLogsSurviveARestartAndAreBounded(t *testing.T) {
	dir := t.TempDir()
	r, v := logStory(t, dir)
	r.most = 4 * (1000 + eventOverhead + batchOverhead)
	for i := range 6 {
		v.Advance(time.Second)
		_, err := r.PutLogEvents("g", "s", []LogEvent{{
			Timestamp: v.Now().UnixMilli(), Message: strings.Repeat(fmt.Sprint(i), 1000),
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := r.SetLogRetention("g", 7); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(Config{Name: "us-west-2", Clock: v, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	events, err := again.LogEvents(LogQuery{Group: "g"})
	if err != nil || len(events) != 4 || events[0].Message[0] != '2' || again.bytes != r.bytes || again.bytes > r.most {
		t.Errorf("%d events, %d bytes: %v", len(events), again.bytes, err)
	}
	streams, err := again.LogStreams("g", "")
	if groups := again.LogGroups(); err != nil || len(groups) != 1 || groups[0].RetentionDays != 7 || len(streams) != 1 ||
		streams[0].LastEvent != v.Now().UnixMilli() {
		t.Errorf("%+v, %+v, %v", groups, streams, err)
	}
	if err := again.DeleteLogGroup("g"); err != nil || again.bytes != 0 || len(again.streams) > 0 {
		t.Errorf("%d bytes are left, %v", again.bytes, err)
	}
}

func TestFilterPatternsOfTerms(t *testing.T) {
	for pattern, want := range map[string]string{
		"": "yyyy", "ERROR": "ynny", "ERROR -timeout": "ynnn", `"a phrase"`: "nnyn", "?ERROR ?WARN": "yyny",
		"-ERROR -WARN": "nnyn",
	} {
		match, err := LogPattern(pattern)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, message := range []string{"ERROR 500", "WARN slow", "here is a phrase", "ERROR timeout"} {
			if match == nil || match(message) {
				got += "y"
			} else {
				got += "n"
			}
		}
		if got != want {
			t.Errorf("%q: %s, want %s", pattern, got, want)
		}
	}
	for _, pattern := range []string{`{ $.a = 1 }`, `[a, b]`, `%\d%`, `"open`, "a -"} {
		if _, err := LogPattern(pattern); err == nil {
			t.Errorf("%s is taken", pattern)
		}
	}
}
