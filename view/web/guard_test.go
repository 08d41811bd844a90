package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/viewtest"
)

// A foreign host name that resolves to this machine gives no access to the cluster.
func TestOnlyLoopbackNamesAreAnswered(t *testing.T) {
	s := open(t, 1, 1)
	for host, want := range map[string]int{
		"127.0.0.1:8080": 200, "localhost:8080": 200, "LOCALHOST": 200, "[::1]:8080": 200, "127.0.0.2": 200,
		"evil.example": 403, "evil.example:8080": 403, "127.0.0.1.evil.example:8080": 403, "10.0.0.1:8080": 403, "": 403,
		"localhost.evil.example": 403,
	} {
		r := httptest.NewRequest(http.MethodGet, "/lite", nil)
		r.Host = host
		w := httptest.NewRecorder()
		s.visitor().ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("asked as %q: status %d, want %d", host, w.Code, want)
		}
	}
}

func TestOnlyLoopbackAddressesAreOpened(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "10.1.2.3:0", "example.com:0", "8080"} {
		l, err := Listen(context.Background(), address)
		if err == nil {
			_ = l.Close()
			t.Errorf("%q was opened", address)
			continue
		}
		if address != "8080" && !strings.Contains(err.Error(), "ssh -L") {
			t.Errorf("%q: %v does not say what to do", address, err)
		}
	}
	l, err := Listen(context.Background(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}

func TestAnotherPageMayNotAsk(t *testing.T) {
	s := open(t, 1, 1)
	for site, want := range map[string]int{"cross-site": 403, "same-site": 403, "same-origin": 200, "none": 200, "": 200} {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/api/history", nil)
		r.Header.Set("Sec-Fetch-Site", site)
		w := httptest.NewRecorder()
		s.visitor().ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("a request of %q: status %d, want %d", site, w.Code, want)
		}
		if p := w.Header().Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'none'") ||
			strings.Contains(p, "unsafe") {
			t.Errorf("policy %q", p)
		}
	}
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/api/history", nil)
	w := httptest.NewRecorder()
	if s.visitor().ServeHTTP(w, r); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: status %d", w.Code)
	}
}

const hostile = "</script><img src=x onerror=alert(1)>\x1b[31m\u202e\u0000"

// Whatever is written in a cluster is rendered as text, in JSON as in HTML, and is visible as what it is.
func TestHostileTextIsOnlyText(t *testing.T) {
	s := open(t, 2, 1)
	s.step(func() {
		n := *viewtest.Node(0)
		n.Labels = map[string]string{"karpenter.sh/nodepool": hostile, hostile: hostile}
		s.model.SetNode(&n)
		s.model.Say(view.Object{Kind: "Node", Name: n.Name}, view.Said{Reason: "Odd", Message: hostile, At: s.clock.Now()})
		s.model.SetPod(&view.Pod{UID: "uid-of-b", Namespace: "a", Name: "b", Verdict: hostile})
		s.model.SetPool(viewtest.Pool(hostile))
		s.model.Note("events", hostile)
	})
	_, lite := s.get("/lite?q=" + "%3Cscript%3E")
	_, all := s.get("/lite")
	r := s.follow("")
	var stream strings.Builder
	for range 4 {
		line, err := r.lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		stream.WriteString(line)
	}
	_, waiting := s.get("/api/waiting")
	for name, text := range map[string]string{
		"lite": all, "filtered": lite, "stream": stream.String(),
		"waiting": waiting,
	} {
		if strings.ContainsAny(text, "\x1b\u202e\u0000") {
			t.Errorf("%s has characters that do something", name)
		}
		if strings.Contains(text, "<img") || strings.Contains(text, "<script") {
			t.Errorf("%s has markup that somebody else wrote", name)
		}
	}
	for name, text := range map[string]string{"lite": all, "stream": stream.String(), "waiting": waiting} {
		if !strings.Contains(text, `x1b[31m`) || !strings.Contains(text, `u202e`) {
			t.Errorf("%s does not show what it is", name)
		}
	}
}

func TestBadParametersAreRefusedWithTheRemedy(t *testing.T) {
	s := open(t, 1, 1)
	for path, want := range map[string]string{
		"/api/at?t=yesterday": "whole number", "/api/at": "whole number", "/api/why?of=web": "pod/NAME",
		"/api/why?of=pod/web": "without the engine",
	} {
		status, text := s.get(path)
		if status < 400 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}

// If a cluster cannot be read, the page says so, and tries again for the next visitor.
func TestWhatCannotBeFilledIsTriedAgain(t *testing.T) {
	m, _ := viewtest.Cluster(1, 1)
	tries := 0
	s := New(Options{Model: m, Token: storyToken, Fill: func(context.Context) (func(context.Context) error, error) {
		if tries++; tries == 1 {
			return nil, errors.New("the API server does not answer")
		}
		return func(context.Context) error { return nil }, nil
	}})
	ctx, cancel := context.WithCancel(context.Background())
	l, err := Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, l) }()
	for _, want := range []int{503, 200, 200} {
		resp, err := http.Get("http://" + l.Addr().String() + "/lite?token=" + storyToken)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != want || want == 503 && !strings.Contains(string(text), "does not answer") {
			t.Errorf("status %d, want %d: %s", resp.StatusCode, want, text)
		}
	}
	if tries != 2 {
		t.Errorf("filled %d times", tries)
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
}

// The first visitor is shown the whole cluster, not the part read so far; if it cannot be read, the page says so.
func TestTheFirstVisitorSeesTheWholeCluster(t *testing.T) {
	for name, comes := range map[string]bool{"it comes": true, "it does not come": false} {
		t.Run(name, func(t *testing.T) {
			m, err := view.New([]string{"cpu", "memory"})
			if err != nil {
				t.Fatal(err)
			}
			s := New(Options{Model: m, Token: storyToken, Fill: func(context.Context) (func(context.Context) error, error) {
				return func(ctx context.Context) error {
					if !comes {
						return errors.New("the first list of nodes did not come")
					}
					m.SetNode(viewtest.Node(0))
					return nil
				}, nil
			}})
			s.life = t.Context()
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/lite?token="+storyToken, nil))
			if text := w.Body.String(); w.Code != http.StatusOK || strings.Contains(text, viewtest.NodeName(0)) != comes ||
				strings.Contains(text, "the first list of nodes did not come") == comes {
				t.Errorf("%d %s", w.Code, text)
			}
		})
	}
}

func TestLiteShowsPagesOfNodes(t *testing.T) {
	s := open(t, 450, 1)
	_, text := s.get("/lite?sort=node")
	if n := strings.Count(text, `<tr><th scope="row">ip-`); n != litePage ||
		!strings.Contains(text, "1 to 200 of 450") || !strings.Contains(text, `from=200`) {
		t.Errorf("%d rows", n)
	}
	_, text = s.get("/lite?sort=node&from=400")
	if n := strings.Count(text, `<tr><th scope="row">ip-`); n != litePage ||
		!strings.Contains(text, "251 to 450 of 450") || strings.Contains(text, ">Next<") {
		t.Errorf("%d rows on the last page", n)
	}
	_, text = s.get("/lite?q=capacity%3Dspot")
	if !strings.Contains(text, "1 to 45 of 45") || strings.Contains(text, "<td>on-demand<td>") {
		t.Error("not only spot nodes are shown")
	}
}
