package httpguard_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodeless/nodeless/internal/kit/httpguard"
)

const (
	bodyLimit = 30 * time.Second
	head      = "POST / HTTP/1.1\r\nHost: localhost\r\n"
)

// pipes are a listener's connections, in memory: time in a synctest bubble passes only while nothing can happen.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, open := <-p; open {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// serve serves connections made by the returned function until the test ends.
func serve(t *testing.T, s *http.Server) (dial func() net.Conn) {
	l := make(pipes)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { close(l); _ = s.Close() })
	return func() net.Conn {
		us, them := net.Pipe()
		l <- them
		return us
	}
}

// trickle sends a text at once and then one byte after each pause until the connection ends, and returns what was
// answered and how long the connection lasted.
func trickle(conn net.Conn, text string, pause time.Duration) (string, time.Duration) {
	began, ended := time.Now(), make(chan struct{})
	go func() {
		_, err := io.WriteString(conn, text)
		for err == nil && pause > 0 {
			select {
			case <-time.After(pause):
				_, err = io.WriteString(conn, "x")
			case <-ended:
				return
			}
		}
	}()
	answer, _ := io.ReadAll(conn)
	close(ended)
	_ = conn.Close()
	return string(answer), time.Since(began)
}

// Whatever a client sends slowly, or not at all, its connection ends, whether or not the handler reads the body.
func TestASlowClientIsEnded(t *testing.T) {
	handlers := map[string]http.Handler{
		"reads the body": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.ReadAll(r.Body) }),
		"answers at once": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
		}),
	}
	for name, handler := range handlers {
		for what, x := range map[string]struct {
			text  string
			pause time.Duration
			want  time.Duration
		}{
			"nothing":                    {"", 0, 10 * time.Second},
			"half a header":              {head, 0, 10 * time.Second},
			"a header byte by byte":      {head + "A: ", time.Second, 10 * time.Second},
			"a body that does not come":  {head + "Content-Length: 9\r\n\r\n", 0, bodyLimit},
			"a body byte by byte":        {head + "Content-Length: 999\r\n\r\n", time.Second, bodyLimit},
			"a chunk that does not come": {head + "Transfer-Encoding: chunked\r\n\r\n9\r\n", 0, bodyLimit},
			"no second request":          {head + "Content-Length: 0\r\n\r\n", 0, 2 * time.Minute},
		} {
			synctest.Test(t, func(t *testing.T) {
				dial := serve(t, httpguard.NewServer(bodyLimit, handler))
				if _, took := trickle(dial(), x.text, x.pause); took < x.want || took > x.want+time.Second {
					t.Errorf("%s, and a handler that %s: the connection ended after %s, want %s", what, name, took, x.want)
				}
			})
		}
	}
}

// A handler that has read the body may take its time.
func TestAHandlerMayWorkAfterTheBody(t *testing.T) {
	for name, wrap := range map[string]func(http.Handler) http.Handler{
		"within": func(h http.Handler) http.Handler { return h }, "steadily": steadily,
	} {
		synctest.Test(t, func(t *testing.T) {
			handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, err := io.ReadAll(r.Body)
				_, _ = io.Copy(io.Discard, r.Body) // as http.Transport does
				select {
				case <-time.After(time.Hour):
				case <-r.Context().Done():
					err = errors.Join(err, r.Context().Err())
				}
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
			conn := serve(t, httpguard.NewServer(bodyLimit, wrap(handler)))()
			defer conn.Close()
			if _, err := io.WriteString(conn, head+"Content-Length: 4\r\n\r\nbody"); err != nil {
				t.Fatal(err)
			}
			r, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || r.Body.Close() != nil || r.StatusCode != http.StatusOK {
				t.Errorf("%s: %v, %v", name, r, err)
			}
		})
	}
}

func steadily(h http.Handler) http.Handler { return httpguard.ReadSteadily(bodyLimit, h) }

// A proxy's client may send for as long as it likes, if it does not pause for too long.
func TestAPauseEndsABody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var read int
		handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if read = len(body); read < 20 && !errors.Is(err, httpguard.ErrPaused) {
				t.Errorf("after %d bytes: %v", read, err)
			}
		})
		dial := serve(t, httpguard.NewServer(bodyLimit, steadily(handler)))
		const twenty = head + "Connection: close\r\nContent-Length: 20\r\n\r\n"
		if answer, took := trickle(dial(), twenty, 20*time.Second); read != 20 || took < 400*time.Second {
			t.Errorf("%d bytes in %s: %s", read, took, answer)
		}
		if answer, took := trickle(dial(), twenty, 40*time.Second); read != 0 || took > bodyLimit+time.Second {
			t.Errorf("%d bytes in %s: %s", read, took, answer)
		}
	})
}
