package controller

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
)

// ask returns the response of the servers to a client at an address.
func (h *health) ask(t *testing.T, path, from string) (int, string) {
	t.Helper()
	mux := http.NewServeMux()
	h.handle(mux, true, true, true)
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.RemoteAddr = from
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// A process whose cycle hangs is restarted; one that waits for leadership is not.
func TestAHungCycleIsNotHealthy(t *testing.T) {
	now := clock.NewVirtual(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC))
	h := &health{clock: now}
	want := func(when string, status int) {
		t.Helper()
		if got, text := h.ask(t, "/healthz", "10.0.0.7:4711"); got != status || status != 200 &&
			!strings.Contains(text, "no progress for 5m1s") {
			t.Errorf("%s: %d %s, want %d", when, got, text, status)
		}
	}
	now.Advance(time.Hour)
	want("before it leads", 200)
	h.progressed()
	now.Advance(hung)
	want("in a long cycle", 200)
	now.Advance(time.Second)
	want("in a cycle that hangs", 503)
	h.progressed()
	want("after it went on", 200)
}

// Any client that reaches the metrics port can read metrics; profiles are for local callers only.
func TestProfilesAreNotForEverybody(t *testing.T) {
	h := &health{clock: clock.Real{}}
	for _, path := range []string{
		"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/symbol",
		"/debug/pprof/profile?seconds=1", "/debug/pprof/trace?seconds=1",
	} {
		for _, from := range []string{"10.0.0.7:4711", "[2001:db8::7]:4711", "192.168.1.7:80", ""} {
			if status, text := h.ask(t, path, from); status != http.StatusForbidden || !strings.Contains(text, "port-forward") {
				t.Errorf("%s from %q: %d", path, from, status)
			}
		}
	}
	for _, from := range []string{"127.0.0.1:4711", "[::1]:4711", "[::ffff:127.0.0.1]:4711"} {
		if status, _ := h.ask(t, "/debug/pprof/", from); status != http.StatusOK {
			t.Errorf("from %s: %d", from, status)
		}
	}
}
