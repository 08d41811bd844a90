package clock

import (
	"net/http"
	"sync/atomic"
	"time"
)

// sameTime is the largest difference that is ignored: the Date of a response has whole seconds, and a response takes
// time.
const sameTime = 5 * time.Second

// Server is a clock set by the Date of a server's responses. Times that come from a cluster must be compared with the
// cluster's clock, and a user's machine may be hours off. If the two clocks differ only by some seconds, and before
// the first response, it is the machine's clock. It is safe for concurrent use.
type Server struct {
	Clock
	ahead atomic.Int64 // of the machine's clock
}

// NewServer returns a Server on top of the machine's clock.
func NewServer(machine Clock) *Server { return &Server{Clock: machine} }

// Now returns the server's time.
func (s *Server) Now() time.Time { return s.Clock.Now().Add(time.Duration(s.ahead.Load())) }

// Ahead returns how far the server's clock is ahead of the machine's; 0 if they agree.
func (s *Server) Ahead() time.Duration { return time.Duration(s.ahead.Load()) }

// Wrap returns a transport that sets the clock by the responses of next. It fits rest.Config.
func (s *Server) Wrap(next http.RoundTripper) http.RoundTripper { return &dated{next: next, clock: s} }

type dated struct {
	next  http.RoundTripper
	clock *Server
}

// RoundTrip sets the clock by the response. A response without a date changes nothing.
func (d *dated) RoundTrip(r *http.Request) (*http.Response, error) {
	out, err := d.next.RoundTrip(r)
	if err != nil {
		return out, err
	}
	if at, err := http.ParseTime(out.Header.Get("Date")); err == nil {
		ahead := at.Sub(d.clock.Clock.Now())
		if max(ahead, -ahead) <= sameTime {
			ahead = 0
		}
		d.clock.ahead.Store(int64(ahead))
	}
	return out, nil
}

// WrappedRoundTripper lets client-go find a transport whose connections it can close.
func (d *dated) WrappedRoundTripper() http.RoundTripper { return d.next }
