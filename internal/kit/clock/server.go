package clock

import (
	"net/http"
	"sync/atomic"
	"time"
)

// sameTime is by how much clocks may differ: the Date of an answer has whole seconds, and an answer takes its time.
const sameTime = 5 * time.Second

// Server is a clock that is set by the Date of a server's answers: what the server's cluster says of its times is to
// be compared with the cluster's clock, and a user's machine may be hours off. Where both agree but for some seconds,
// and before the first answer, it is the machine's. Safe for concurrent use.
type Server struct {
	Clock
	ahead atomic.Int64 // of the machine's clock
}

// NewServer is a Server's clock on top of the machine's.
func NewServer(machine Clock) *Server { return &Server{Clock: machine} }

// Now is the server's time.
func (s *Server) Now() time.Time { return s.Clock.Now().Add(time.Duration(s.ahead.Load())) }

// Ahead is by how much the server's clock is ahead of the machine's; 0 where they agree.
func (s *Server) Ahead() time.Duration { return time.Duration(s.ahead.Load()) }

// Wrap looks at the answers that come through next; rest.Config takes it.
func (s *Server) Wrap(next http.RoundTripper) http.RoundTripper { return &dated{next: next, clock: s} }

type dated struct {
	next  http.RoundTripper
	clock *Server
}

// RoundTrip reads the clock off the answer. An answer without a date tells nothing.
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

// WrappedRoundTripper is for client-go, which looks for what it can close.
func (d *dated) WrappedRoundTripper() http.RoundTripper { return d.next }
