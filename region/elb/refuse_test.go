package elb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodeless/nodeless/internal/kit/httpguard"
	"github.com/nodeless/nodeless/region"
)

func TestTheAnswerBlamesWhoFailed(t *testing.T) {
	for status, err := range map[int]error{
		http.StatusRequestTimeout:        fmt.Errorf("write to target: %w: nothing for %s", httpguard.ErrPaused, time.Minute),
		http.StatusRequestEntityTooLarge: &http.MaxBytesError{Limit: 1},
		http.StatusGatewayTimeout:        os.ErrDeadlineExceeded,
		http.StatusBadGateway:            errors.New("connection refused"),
	} {
		w := httptest.NewRecorder()
		if refuseFor(w, "10.0.0.1:80", err); w.Code != status {
			t.Errorf("%v: status %d, want %d", err, w.Code, status)
		}
	}
}

// pipes are a listener's connections, in memory: time in a synctest bubble passes only while nothing can happen.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, open := <-p; open {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	us, them := net.Pipe()
	p <- them
	return us, nil
}

// balance serves an application load balancer with one target until the test ends, and returns how to connect to it.
func balance(t *testing.T, behind http.HandlerFunc) (connect func() net.Conn) {
	clients, server := make(pipes), make(pipes)
	s := httpguard.NewServer(time.Hour, behind)
	go func() { _ = s.Serve(server) }()
	d := New(Options{})
	pods := &pool{data: d}
	pods.targets = []*target{{
		pool: pods, ctx: t.Context(), address: "10.0.0.1:80", health: region.TargetHealth{State: region.TargetHealthy},
		transport: &http.Transport{DialContext: server.dial},
	}}
	d.pools["pods"] = pods
	f := &front{}
	f.routes.Store(&routes{
		listener: region.Listener{DefaultActions: []region.ListenerAction{{TargetGroupARN: "pods"}}}, idle: 60 * time.Second,
	})
	stop := serveHTTP(clients, d.handler(f), d.Log)
	t.Cleanup(func() {
		stop()
		pods.targets[0].transport.CloseIdleConnections()
		_ = s.Close()
	})
	return func() net.Conn {
		conn, _ := clients.dial(t.Context(), "", "")
		return conn
	}
}

// A client that stops in the middle of its request is told so; the target is not blamed. A target that breaks the
// connection is, although the client pauses meanwhile.
func TestAClientThatPausesIsBlamed(t *testing.T) {
	for want, x := range map[string]struct {
		rest   string // comes a second after the first three bytes
		behind http.HandlerFunc
	}{
		"408 Request Timeout: 408 Request Timeout the client paused in the middle of its request: nothing for 1m0s": {
			"", func(_ http.ResponseWriter, r *http.Request) { _, _ = io.ReadAll(r.Body) },
		},
		"200 OK: nine byte": {
			"e byte", func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) },
		},
		"502 Bad Gateway: 502 Bad Gateway target 10.0.0.1:80: EOF": {
			"e byte", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			conn := balance(t, x.behind)()
			defer conn.Close()
			go func() {
				_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: game\r\nConnection: close\r\nContent-Length: 9\r\n\r\nnin")
				time.Sleep(time.Second)
				_, _ = io.WriteString(conn, x.rest)
			}()
			answer, err := io.ReadAll(conn)
			head, body, _ := strings.Cut(string(answer), "\r\n\r\n")
			status, _, _ := strings.Cut(strings.TrimPrefix(head, "HTTP/1.1 "), "\r\n")
			if got := status + ": " + strings.Join(strings.Fields(body), " "); got != want {
				t.Errorf("got  %s (%v)\nwant %s", got, err, want)
			}
		})
	}
}

// The idle timeout limits how long a target may take to answer, not how long a client may take to send its request.
func TestATargetAnswersWithinTheIdleTimeout(t *testing.T) {
	const late = "504 Gateway Timeout target 10.0.0.1:80: no answer within the load balancer's idle timeout: context deadline exceeded"
	for want, takes := range map[string]time.Duration{
		"200 OK: nine byte":            59 * time.Second,
		"504 Gateway Timeout: " + late: 61 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			conn := balance(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				select {
				case <-time.After(takes):
					_, _ = w.Write(body)
				case <-r.Context().Done():
				}
			})()
			defer conn.Close()
			go func() {
				_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: game\r\nConnection: close\r\nContent-Length: 9\r\n\r\n")
				for _, part := range []string{"nin", "e b", "yte"} {
					time.Sleep(50 * time.Second)
					_, _ = io.WriteString(conn, part)
				}
			}()
			answer, err := io.ReadAll(conn)
			head, body, _ := strings.Cut(string(answer), "\r\n\r\n")
			status, _, _ := strings.Cut(strings.TrimPrefix(head, "HTTP/1.1 "), "\r\n")
			if got := status + ": " + strings.Join(strings.Fields(body), " "); got != want {
				t.Errorf("got  %s (%v)\nwant %s", got, err, want)
			}
		})
	}
}
