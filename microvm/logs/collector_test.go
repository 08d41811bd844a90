package logs

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// collector is a server that records what it receives.
type collector struct {
	*httptest.Server
	news chan struct{}

	mu     sync.Mutex
	status int // 0 = 200
	answer string
	bodies []string
	heads  []http.Header
	paths  []string
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{news: make(chan struct{}, 1)}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		c.mu.Lock()
		c.bodies, c.heads, c.paths = append(c.bodies, string(b)), append(c.heads, r.Header), append(c.paths, r.URL.String())
		status, answer := c.status, c.answer
		c.mu.Unlock()
		if status != 0 {
			w.WriteHeader(status)
		}
		_, _ = io.WriteString(w, answer)
		select {
		case c.news <- struct{}{}:
		default:
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// answers sets the response to future requests.
func (c *collector) answers(status int, body string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status, c.answer = status, body
}

// all returns what was received so far.
func (c *collector) all() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.bodies, "")
}

// until waits for a request after which the condition holds.
func (c *collector) until(t *testing.T, what string, holds func(all string) bool) {
	t.Helper()
	late := time.After(patience)
	for !holds(c.all()) {
		select {
		case <-c.news:
		case <-late:
			t.Fatalf("%s does not come to pass; got %d bytes: %.2000s", what, len(c.all()), c.all())
		}
	}
}

// output returns an output section for the collector.
func (c *collector) output(name string, lines ...string) string {
	hostname, port, _ := net.SplitHostPort(c.Listener.Addr().String())
	lines = append([]string{"Name " + name, "Match kube.*", "Host " + hostname, "Port " + port}, lines...)
	return "[OUTPUT]\n    " + strings.Join(lines, "\n    ") + "\n"
}
