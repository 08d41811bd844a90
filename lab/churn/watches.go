package churn

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/nodeless/nodeless/lab/apisim"
)

// Watches is a connection to an API server on which watches end and sometimes cannot resume because their revision is
// too old, so that clients list everything again. It is safe for concurrent use.
type Watches struct {
	server *apisim.Server
	mu     sync.Mutex
	r      *rand.Rand
	open   map[*broken]bool
	lists  int
}

// Through returns a connection to a server.
func Through(server *apisim.Server) *Watches {
	return &Watches{server: server, r: rand.New(rand.NewPCG(14, 6)), open: map[*broken]bool{}}
}

// Lists returns the number of lists, and of watches that sent the initial state.
func (w *Watches) Lists() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lists
}

// RoundTrip forwards the request to the server. Half of the watches that would resume fail because their revision is
// too old.
func (w *Watches) RoundTrip(req *http.Request) (*http.Response, error) {
	q := req.URL.Query()
	switch {
	case strings.HasSuffix(req.URL.Path, "/selfsubjectaccessreviews"):
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		// This server discards events.
		return say(req, http.StatusCreated,
			fmt.Sprintf(`{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":%t}}`,
				!bytes.Contains(body, []byte("events")))), nil
	case q.Get("watch") == "" || q.Get("sendInitialEvents") != "":
		w.mu.Lock()
		w.lists++
		w.mu.Unlock()
	case w.chance(2):
		return say(req, http.StatusGone,
			`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,`+
				`"message":"too old resource version"}`), nil
	}
	resp, err := w.server.RoundTrip(req)
	if err == nil && q.Get("watch") != "" && resp.StatusCode == http.StatusOK {
		body := &broken{ReadCloser: resp.Body, of: w}
		w.mu.Lock()
		w.open[body] = true
		w.mu.Unlock()
		resp.Body = body
	}
	return resp, err
}

// chance returns true with probability 1/n.
func (w *Watches) chance(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.r.IntN(n) == 0
}

// Cut ends all watches, so that later changes are seen late and all at once.
func (w *Watches) Cut() {
	w.mu.Lock()
	all := slices.Collect(maps.Keys(w.open))
	w.open = map[*broken]bool{}
	w.mu.Unlock()
	for _, body := range all {
		_ = body.ReadCloser.Close()
	}
}

func say(req *http.Request, status int, text string) *http.Response {
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(text)), Request: req,
	}
}

// broken is a watch that Cut can end.
type broken struct {
	io.ReadCloser
	of *Watches
}

// Read ends like a watch that has timed out.
func (b *broken) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.ErrClosedPipe) {
		err = io.EOF
	}
	return n, err
}

func (b *broken) Close() error {
	b.of.mu.Lock()
	delete(b.of.open, b)
	b.of.mu.Unlock()
	return b.ReadCloser.Close()
}
