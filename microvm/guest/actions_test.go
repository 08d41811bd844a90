package guest

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/nodeless/nodeless/microvm/wire"
)

// The agent's own encoding of the two messages works with gRPC's own server.
func TestGRPCHealth(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	plain, checked := grpc.NewServer(), grpc.NewServer()
	state := health.NewServer()
	state.SetServingStatus("shop", healthpb.HealthCheckResponse_SERVING)
	state.SetServingStatus("till", healthpb.HealthCheckResponse_NOT_SERVING)
	healthpb.RegisterHealthServer(checked, state)
	go func() { _ = checked.Serve(l) }()
	defer checked.Stop()
	for service, want := range map[string]string{"": "", "shop": "", "till": "service unhealthy", "none": "status 5"} {
		err := grpcHealth(t.Context(), l.Addr().String(), service)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("service %q: %v, want %q", service, err, want)
		}
	}
	l2, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = plain.Serve(l2) }()
	defer plain.Stop()
	if err := grpcHealth(t.Context(), l2.Addr().String(), ""); err == nil ||
		!strings.Contains(err.Error(), "does not implement") {
		t.Errorf("a server without the health service: %v", err)
	}
}

func TestHTTPGet(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		case "/here":
			http.Redirect(w, r, "/broken", http.StatusFound)
		case "/broken":
			w.WriteHeader(http.StatusInternalServerError)
		case "/missing":
			w.WriteHeader(http.StatusNotFound)
		case "/host":
			if r.Host != "shop.example" || r.Header.Get("X-One") != "1" || r.URL.RawQuery != "a=b" {
				w.WriteHeader(http.StatusBadRequest)
			}
		}
	}))
	defer s.Close()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/": "", "/away": "Probe terminated redirects", "/here": "statuscode: 500", "/broken": "statuscode: 500", "/missing": "statuscode: 404",
		"/host?a=b": "",
	} {
		err := httpGet(t.Context(), wire.HTTPGet{
			Scheme: "HTTPS", Port: port, Path: path,
			Headers: []wire.Header{{Name: "Host", Value: "shop.example"}, {Name: "X-One", Value: "1"}},
		}, "127.0.0.1")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := httpGet(ctx, wire.HTTPGet{Port: port}, "127.0.0.1"); err == nil {
		t.Error("a probe out of time succeeded")
	}
}

// A container's own headers replace a kubelet's defaults. An empty Accept is not sent.
func TestHTTPHeaders(t *testing.T) {
	var got http.Header
	port := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
	for _, c := range []struct {
		headers           []wire.Header
		userAgent, accept []string
	}{
		{nil, []string{"kube-probe/nodeless"}, []string{"*/*"}},
		{[]wire.Header{{Name: "user-agent", Value: "own"}, {Name: "accept", Value: "a/b"}}, []string{"own"}, []string{"a/b"}},
		{[]wire.Header{{Name: "Accept"}}, []string{"kube-probe/nodeless"}, nil},
	} {
		if err := httpGet(t.Context(), wire.HTTPGet{Port: port, Headers: c.headers}, "127.0.0.1"); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got["User-Agent"], c.userAgent) || !slices.Equal(got["Accept"], c.accept) {
			t.Errorf("with %v: %v", c.headers, got)
		}
	}
}

// As with a kubelet, a hook succeeds whatever the answer's status is, and fails without an answer.
func TestHTTPHook(t *testing.T) {
	port := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/loop" {
			http.Redirect(w, r, "/loop", http.StatusFound)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	})
	r := &run{c: &container{pod: newPod(wire.Pod{}, nil, nil)}}
	for path, want := range map[string]bool{"/missing": true, "/loop": false} {
		a := wire.Action{HTTP: &wire.HTTPGet{Port: port, Path: path}}
		if err := r.hook(t.Context(), a); (err == nil) != want {
			t.Errorf("hook at %s: %v", path, err)
		}
		if err := r.act(t.Context(), a); err == nil {
			t.Errorf("a probe of %s succeeded", path)
		}
	}
}

// serve serves HTTP on a port.
func serve(t *testing.T, h http.HandlerFunc) (port int) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port
}

// A process that a command has left behind keeps the output open. Nobody waits for it, and its output is read on.
func TestOutputOfProcessLeftBehind(t *testing.T) {
	var out limitedBuffer
	all, err := newStdio(false, false, nil, func(_ byte, from io.Reader) { _, _ = io.Copy(&out, from) })
	if err != nil {
		t.Fatal(err)
	}
	left := all.files[wire.Stdout]
	all.files[wire.Stdout] = nil // the command has ended, the other has not
	all.started()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	all.drainFor(ctx, time.Hour)
	if _, err := left.WriteString("later"); err != nil {
		t.Errorf("it cannot write any more: %v", err)
	}
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}
	all.reading.Wait()
	if out.String() != "later" {
		t.Errorf("read %q", out.String())
	}
}

// There is no pause after the first end, then kubelet's 10, 20, 40 seconds and so on, up to five minutes.
func TestBackoff(t *testing.T) {
	b := wire.Backoff{Initial: 10 * time.Second, Max: 5 * time.Minute}
	for ends, want := range map[int]time.Duration{
		1: 0, 2: 10 * time.Second, 3: 20 * time.Second, 6: 160 * time.Second,
		7: 300 * time.Second, 5000: 300 * time.Second,
	} {
		if got := backoff(b, ends); got != want {
			t.Errorf("after %d ends %s, want %s", ends, got, want)
		}
	}
}

// Records that the host has not stored block the writer at the limit, and are not lost.
func TestLogsBlockUntilStored(t *testing.T) {
	l := newLogs()
	written := make(chan int)
	go func() {
		n := 0
		for ; n < 100; n++ {
			l.add(wire.LogRecord{Stream: wire.Stdout, Line: make([]byte, wire.MaxLogLine)})
		}
		written <- n
	}()
	var last int64
	for n := range 100 {
		r, ok := l.next(last, nil)
		if !ok || r.Nanos <= last {
			t.Fatalf("record %d: %v %d after %d", n, ok, r.Nanos, last)
		}
		l.mu.Lock()
		if l.bytes > maxLogBytes+wire.MaxLogLine+recordCost {
			t.Errorf("%d bytes are held", l.bytes)
		}
		l.mu.Unlock()
		last = r.Nanos
		l.taken(last)
	}
	if n := <-written; n != 100 {
		t.Error(n)
	}
}

// A flush does not wait for records that are written after it.
func TestFlushIgnoresLaterRecords(t *testing.T) {
	l := newLogs()
	l.add(wire.LogRecord{Line: []byte("before")})
	asked := l.newest()
	l.add(wire.LogRecord{Line: []byte("after")})
	l.taken(asked)
	if err := l.flush(asked, nil); err != nil || len(l.records) != 1 {
		t.Errorf("%d records are held, %v", len(l.records), err)
	}
}

func TestLines(t *testing.T) {
	var got []string
	long := strings.Repeat("x", wire.MaxLogLine+5)
	lines(strings.NewReader("a\n\n"+long+"\nend"), func(line []byte, partial bool) {
		got = append(got, strconv.Itoa(len(line))+strconv.FormatBool(partial))
	})
	if s := strings.Join(got, " "); s != "1false 0false 16384true 5false 3false" {
		t.Error(s)
	}
}
