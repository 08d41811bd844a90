package web

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/view/viewtest"
)

const prod = "arn:aws:eks:us-west-2:111122223333:cluster/prod"

// fleetOfStory returns three contexts: the page's own, one with five nodes, and one that cannot be opened.
func fleetOfStory() *Clusters {
	return &Clusters{Here: "story", Names: []string{prod, "gone", "story"}, Open: func(name string) (Options, error) {
		if name != prod {
			return Options{}, errors.New("no such host" + hostile)
		}
		m, _ := viewtest.Cluster(5, 3)
		return Options{Context: prod, Prices: "none", Model: m}, nil
	}}
}

// The page of one cluster links to those of the kubeconfig's other contexts, whatever their names, and adds up their
// sums.
func TestAPageLeadsToTheOtherClusters(t *testing.T) {
	s := open(t, 2, 1)
	s.o.Clusters, s.life = fleetOfStory(), t.Context()
	opened := 0
	inner := s.o.Clusters.Open
	s.o.Clusters.Open = func(name string) (Options, error) { opened++; return inner(name) }

	escapedName := "arn:aws:eks:us-west-2:111122223333:cluster%2Fprod"
	for _, x := range []struct {
		path   string
		status int
		says   string
	}{
		{"/api/clusters", http.StatusOK, `{"here":"story","names":["` + prod + `","gone","story"]}`},
		{"/lite", http.StatusOK, "2 nodes"},
		{"/clusters/story/lite", http.StatusOK, "2 nodes"},
		{"/clusters/" + escapedName + "/lite", http.StatusOK, "5 nodes"},
		{"/clusters/" + escapedName + "/api/pods?node=" + viewtest.NodeName(4), http.StatusOK, "web-4-2"},
		{"/clusters/" + escapedName + "/api/clusters", http.StatusOK, `"names":[]`},
		{"/clusters/gone/lite", http.StatusBadGateway, "context gone: no such host"},
		{"/clusters/gone/api/who", http.StatusBadGateway, `{"error":"context gone: no such host`},
		{"/clusters/else/lite", http.StatusNotFound, `this page shows no context "else"`},
		{"/clusters/..%2f..%2fetc/api/who", http.StatusNotFound, "shows no context"},
		{"/clusters/%ff/api/who", http.StatusNotFound, "shows no context"},
	} {
		status, text := s.get(x.path)
		if status != x.status || !strings.Contains(text, x.says) || strings.Contains(text, "\x1b") {
			t.Errorf("%s: %d %s\nwant %d with %s", x.path, status, text, x.status, x.says)
		}
	}
	if opened != 3 { // prod once, gone each time
		t.Errorf("clusters were opened %d times", opened)
	}
	status, text := s.get("/api/clusters/sums")
	for _, part := range []string{
		`"known":true,"name":"` + prod + `"`, `"nodes":5`, `"running":15`, `"nodes":2`,
		`"known":false,"name":"gone","problem":"context gone: no such host`,
	} {
		if status != http.StatusOK || !strings.Contains(text, part) {
			t.Errorf("the sums lack %s: %d %s", part, status, text)
		}
	}
}

// Without the token nothing is revealed about other clusters, and a page for others only shows its own.
func TestOtherClustersAskForTheToken(t *testing.T) {
	s := open(t, 1, 1)
	s.o.Clusters, s.life = fleetOfStory(), t.Context()
	for _, path := range []string{"/clusters/story/lite", "/clusters/" + prod + "/", "/api/clusters", "/api/clusters/sums"} {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil))
		if w.Code != http.StatusUnauthorized || strings.Contains(w.Body.String(), "gone") {
			t.Errorf("%s without a token: %d %s", path, w.Code, w.Body)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/clusters/gone", nil)
	r.Header.Set("Authorization", "Bearer "+storyToken)
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	if to := w.Header().Get("Location"); w.Code != http.StatusSeeOther || to != "/clusters/gone/" {
		t.Errorf("an address without its last slash: %d to %s", w.Code, to)
	}
}

// A program that was built without its page shows the tables of the cluster whose address was opened.
func TestWithoutItsPageAClusterLeadsToItsOwnTables(t *testing.T) {
	for _, c := range []struct{ path, want string }{{"/", "/lite"}, {"/clusters/story/", "/clusters/story/lite"}} {
		w := httptest.NewRecorder()
		toLite(w, httptest.NewRequest(http.MethodGet, "/", nil)) // as the fleet forwards it
		to, err := (&url.URL{Path: c.path}).Parse(w.Header().Get("Location"))
		if err != nil || w.Code != http.StatusFound || to.Path != c.want {
			t.Errorf("%s: %d to %v (%v), want %s", c.path, w.Code, to, err, c.want)
		}
	}
}

// A cluster that has not answered yet holds up neither the sums of the others nor the page.
func TestASlowClusterHoldsUpNobody(t *testing.T) {
	s := open(t, 2, 1)
	s.o.Clusters, s.life = fleetOfStory(), t.Context()
	answered := make(chan struct{})
	s.o.Clusters.Open = func(string) (Options, error) { return slowly(answered), nil }
	_, text := s.get("/api/clusters/sums")
	if !strings.Contains(text, `"known":false,"name":"gone","totals"`) || !strings.Contains(text, `"nodes":2`) {
		t.Errorf("while a cluster is read: %s", text)
	}
	close(answered)
	if _, text = s.get("/api/clusters/sums"); !strings.Contains(text, `"known":true,"name":"gone"`) ||
		!strings.Contains(text, `"nodes":7`) {
		t.Errorf("after it was read: %s", text)
	}
}

// A cluster that was not read in time is complete once its lists have come, though nobody opened its page.
func TestASlowClusterIsReadInTheEnd(t *testing.T) {
	s := open(t, 2, 1)
	s.o.Clusters, s.life = fleetOfStory(), t.Context()
	m, _ := viewtest.Cluster(7, 1)
	waits := 0
	s.o.Clusters.Open = func(string) (Options, error) {
		return Options{Model: m, Fill: func(context.Context) (func(context.Context) error, error) {
			return func(context.Context) error {
				if waits++; waits == 1 {
					return errors.New("pods: the list takes long")
				}
				return nil
			}, nil
		}}, nil
	}
	s.o.Clusters.Names = []string{"slow", "story"}
	if _, text := s.get("/api/clusters/sums"); !strings.Contains(text, "the list takes long") {
		t.Errorf("while its lists come: %s", text)
	}
	if _, text := s.get("/api/clusters/sums"); strings.Contains(text, "the list takes long") ||
		!strings.Contains(text, `"nodes":7`) {
		t.Errorf("after they came: %s", text)
	}
}

// slowly returns a page whose cluster is read once the channel is closed.
func slowly(answered <-chan struct{}) Options {
	m, _ := viewtest.Cluster(7, 1)
	return Options{Model: m, Fill: func(context.Context) (func(context.Context) error, error) {
		<-answered // like a connection that is not accepted
		return func(context.Context) error { return nil }, nil
	}}
}
