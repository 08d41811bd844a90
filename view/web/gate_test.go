package web

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/access"
)

// gatekept returns a page with a gate where a token is the name of the namespace whose pods its owner may see; the
// owner of "all" may see everything.
func gatekept(t *testing.T) *site {
	s := open(t, 1, 1)
	s.life = t.Context()
	s.o.Gate = &Gate{Review: func(_ context.Context, token string) (*access.Rights, error) {
		if token == "all" {
			return &access.Rights{
				Allow:     view.Allow{Nodes: true, Claims: true, Pools: true, Events: true, Pods: true},
				Decisions: true, Usage: true, Engine: true,
			}, nil
		}
		return &access.Rights{User: token, Lacks: []string{"nodes"}, Allow: view.Allow{Namespaces: []string{token}}}, nil
	}}
	return s
}

func (s *site) as(h http.Handler, token, path string) (int, string) {
	r := httptest.NewRequest(http.MethodGet, "https://page.example"+path, nil)
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// However many different sets of permissions there are, the number of copies of the cluster is limited: unused ones
// are dropped.
func TestThereAreSoManySeats(t *testing.T) {
	s := gatekept(t)
	h := s.Handler()
	for i := range 3 * mostSeats {
		if status, text := s.as(h, fmt.Sprint("namespace-", i), "/lite"); status != http.StatusOK ||
			!strings.Contains(text, "only pods of namespace-"+fmt.Sprint(i)+" are shown") {
			t.Fatalf("%d %s", status, text)
		}
	}
	if n := len(s.seats.byKey); n != mostSeats {
		t.Errorf("%d copies are kept", n)
	}
	for _, at := range s.seats.byKey {
		at.taken++ // each has a viewer
	}
	if status, text := s.as(h, "one-too-many", "/api/history"); status != http.StatusServiceUnavailable ||
		!strings.Contains(text, "too many people") {
		t.Errorf("%d %s", status, text)
	}
	if status, text := s.as(h, "all", "/lite"); status != http.StatusOK || !strings.Contains(text, "ip-10-0-0-0") {
		t.Errorf("who may see everything: %d %s", status, text)
	}
}

// Behind a login the request's host name does not matter; requests from other sites are still rejected.
func TestAGateIsNoWayAroundTheOtherGuards(t *testing.T) {
	h := gatekept(t).Handler()
	for site, want := range map[string]int{"same-origin": 200, "cross-site": 403} {
		r := httptest.NewRequest(http.MethodGet, "https://page.example/api/history", nil)
		r.Header.Set("Authorization", "Bearer all")
		r.Header.Set("Sec-Fetch-Site", site)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != want ||
			!strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("from %s: %d", site, w.Code)
		}
	}
}
