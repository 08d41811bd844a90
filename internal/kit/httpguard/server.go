package httpguard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// Limits of a Server whose owner sets no others: how long the headers of a request may take to arrive, and how long a
// connection may wait for its next request.
const (
	headersWithin = 10 * time.Second
	nextWithin    = 2 * time.Minute
)

// NewServer returns a server that no client can occupy by sending slowly, or nothing: the headers and the body of a
// request have a deadline, and so has the next request. A handler that has read the body may take its time: net/http
// then removes the deadline. Every HTTP server of this program is made here; its owner may change the limits, but not
// remove them.
func NewServer(body time.Duration, h http.Handler) *http.Server {
	return &http.Server{
		Handler: readWithin(body, h), ReadHeaderTimeout: headersWithin, IdleTimeout: nextWithin,
	}
}

// readWithin bounds how long a request's body may take to arrive.
func readWithin(limit time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			readFor(w, limit)
		}
		next.ServeHTTP(w, r)
	})
}

// readFor sets how much longer a request's body may take to arrive, and returns until when.
func readFor(w http.ResponseWriter, limit time.Duration) time.Time {
	until := time.Now().Add(limit)
	_ = http.NewResponseController(w).SetReadDeadline(until) // test recorders have no deadline
	return until
}

// ErrPaused means that a client has sent nothing of a body for too long.
var ErrPaused = errors.New("the client paused in the middle of its request")

// ReadSteadily bounds how long a request's body may pause, however long it takes in all, as proxies do that do not
// know how much is sent. Reading fails with ErrPaused after that. The limit of NewServer must be the same: it applies
// to a body of which the handler reads nothing.
func ReadSteadily(pause time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			body := &steadyBody{ReadCloser: r.Body, w: w, pause: pause}
			r = r.WithContext(context.WithValue(r.Context(), bodyOf{}, body))
			r.Body = body
		}
		next.ServeHTTP(w, r)
	})
}

// Paused returns ErrPaused if the client has paused for too long in the body that ReadSteadily gave to the request, or
// to the one whose context it has. net/http cancels that context before the body's reader learns why.
func Paused(r *http.Request) error {
	if b, ok := r.Context().Value(bodyOf{}).(*steadyBody); ok {
		if until := b.until.Load(); until != nil && !time.Now().Before(*until) {
			return b.paused()
		}
	}
	return nil
}

// bodyOf is the key of a request's steadyBody in its context.
type bodyOf struct{}

// steadyBody is a request's body whose deadline moves with each read.
type steadyBody struct {
	io.ReadCloser
	w     http.ResponseWriter
	pause time.Duration
	ended bool
	until atomic.Pointer[time.Time] // when the read that runs, or has timed out, times out; nil if there is none
}

func (b *steadyBody) Read(p []byte) (int, error) {
	if !b.ended { // afterwards a deadline would end the request's context
		until := readFor(b.w, b.pause)
		b.until.Store(&until)
	}
	n, err := b.ReadCloser.Read(p)
	b.ended = err != nil
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return n, b.paused()
	}
	b.until.Store(nil)
	return n, err
}

func (b *steadyBody) paused() error { return fmt.Errorf("%w: nothing for %s", ErrPaused, b.pause) }
