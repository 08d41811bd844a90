package clock_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
)

type answer func(*http.Request) (*http.Response, error)

func (a answer) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

func TestAServersClockIsReadOffItsAnswers(t *testing.T) {
	noon := time.Date(2026, 6, 3, 12, 0, 0, 0, time.UTC)
	for date, want := range map[string]time.Duration{
		"":         0,
		"tomorrow": 0,
		noon.Add(-time.Second).Format(http.TimeFormat):    0, // whole seconds, and the latency
		noon.Add(4 * time.Second).Format(http.TimeFormat): 0,
		noon.Add(5 * time.Hour).Format(http.TimeFormat):   5 * time.Hour,
		noon.Add(-3 * time.Hour).Format(http.TimeFormat):  -3 * time.Hour,
	} {
		s := clock.NewServer(clock.NewVirtual(noon))
		through := s.Wrap(answer(func(*http.Request) (*http.Response, error) {
			return &http.Response{Header: http.Header{"Date": {date}}, Body: http.NoBody}, nil
		}))
		r, err := http.NewRequest(http.MethodGet, "http://cluster/version", nil)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := through.RoundTrip(r); err != nil || out.Body.Close() != nil {
			t.Fatal(err)
		}
		if got := s.Now(); !got.Equal(noon.Add(want)) || s.Ahead() != want {
			t.Errorf("Date %q: it is %s, want %s", date, got, noon.Add(want))
		}
	}
}
