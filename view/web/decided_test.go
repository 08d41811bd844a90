package web

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	kept "github.com/nodeless/nodeless/explain/record"
	"github.com/nodeless/nodeless/explain/record/store"
	"github.com/nodeless/nodeless/view/viewtest"
)

// diary is a log in memory.
type diary struct {
	mu      sync.Mutex
	entries []kept.Entry
	err     error
	reads   int
	readers map[chan []kept.Entry]bool
}

func (d *diary) Read(context.Context) (*store.Reading, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reads++; d.err != nil {
		return nil, d.err
	}
	return &store.Reading{Records: kept.Fold(d.entries)}, nil
}

func (d *diary) Follow(ctx context.Context, news func([]kept.Entry)) error {
	c := make(chan []kept.Entry, 100)
	d.mu.Lock()
	if d.readers == nil {
		d.readers = map[chan []kept.Entry]bool{}
	}
	d.readers[c] = true
	c <- append([]kept.Entry{}, d.entries...)
	d.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			return nil
		case more := <-c:
			news(more)
		}
	}
}

func (d *diary) write(more ...kept.Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries = append(d.entries, more...)
	for c := range d.readers {
		c <- more
	}
}

// launched returns a node that was launched for a pod 60 - i minutes before the story.
func launched(i int) kept.Entry {
	return kept.Entry{Decision: &kept.Decision{
		ID: fmt.Sprintf("launch-%d", i), Time: viewtest.Now.Add(time.Duration(i-60) * time.Minute), Kind: kept.Launch,
		Why:  fmt.Sprintf("1 pod waits, and m7g.large spot in us-west-2a costs least (%d)", i),
		Pods: []string{fmt.Sprintf("shop/web-%d", i)},
		Launched: []kept.LaunchedNode{{
			Claim: fmt.Sprintf("general-%d", i), Pool: "general", Types: 3,
			Chosen:   kept.Offer{Type: "m7g.large", Zone: "us-west-2a", CapacityType: "spot", DollarsPerHour: 0.03},
			RunnerUp: &kept.Offer{Type: "m6g.large", DollarsPerHour: 0.031},
		}},
	}}
}

// saved returns a node of $0.5 an hour that was removed an hour before the story because it was empty, and was gone
// two minutes later.
func saved() []kept.Entry {
	at := viewtest.Now.Add(-time.Hour)
	return []kept.Entry{
		{Decision: &kept.Decision{
			ID: "saved", Time: at, Kind: kept.Remove, Method: "Empty", Why: "nobody needs it", SavesPerHour: 0.5,
			Removed: []kept.RemovedNode{{
				Offer: kept.Offer{Type: "c6a.xlarge", DollarsPerHour: 0.5}, Node: "old",
				Claim: "old-claim", Pool: "other",
			}},
			Shares: []kept.Share{
				{DollarsPerHour: 0.46},
				{Workload: kept.Workload{Kind: "DaemonSet", Namespace: "kube-system", Name: "logs"}, DollarsPerHour: 0.04},
			},
		}},
		{Outcome: &kept.Outcome{
			Of: "saved", Kind: kept.Terminated, Time: at.Add(2 * time.Minute), Claim: "old-claim",
			Seconds: 120,
		}},
	}
}

// decides returns a page with decisions.
func decides(t *testing.T, d *diary) *site {
	s := open(t, 1, 1)
	s.decided = newDecided(d, s.clock)
	s.life = t.Context()
	return s
}

func (s *site) list(path string) (out decisionList) {
	s.Helper()
	status, text := s.get(path)
	if err := json.Unmarshal([]byte(text), &out); err != nil || status != http.StatusOK {
		s.Fatalf("%d %v: %s", status, err, text)
	}
	return out
}

func TestDecisionsAreToldNewestFirstAndFound(t *testing.T) {
	d := &diary{}
	for i := range 150 {
		d.entries = append(d.entries, launched(i))
	}
	d.entries = append(d.entries,
		kept.Entry{Outcome: &kept.Outcome{Of: "launch-149", Kind: kept.Ready, Node: "n", Seconds: 44}})
	s := decides(t, d)
	all := s.list("/api/decisions")
	if all.Kept != 150 || all.Of != 150 || len(all.Items) != usualDecisions || all.Items[0].ID != "launch-149" ||
		all.Items[1].ID != "launch-148" {
		t.Errorf("%d of %d of %d, first %s", len(all.Items), all.Of, all.Kept, all.Items[0].ID)
	}
	if first := all.Items[0]; first.Became != "ready in 44s as n" || first.Count != 1 ||
		first.Launched[0].RunnerUp.Type != "m6g.large" {
		t.Errorf("%+v", first)
	}
	if some := s.list("/api/decisions?q=SHOP/web-7%20m7g.large&limit=3"); some.Of != 11 || len(some.Items) != 3 ||
		some.Items[2].ID != "launch-77" {
		t.Errorf("%d found, last %s", some.Of, some.Items[len(some.Items)-1].ID)
	}
	for _, bad := range []string{"0", "-1", "x", "1001"} {
		if status, text := s.get("/api/decisions?limit=" + bad); status != http.StatusBadRequest ||
			!strings.Contains(text, "1 to 1000") {
			t.Errorf("limit %s: %d %s", bad, status, text)
		}
	}
	if _, lite := s.get("/lite/decisions?q=web-149"); !strings.Contains(lite, "ready in 44s as n") ||
		strings.Contains(lite, "(148)") {
		t.Errorf("the page without script says %s", lite)
	}
}

// Clients that follow the stream are told of new decisions, once each, without losing their position among the
// frames.
func TestNewsOfDecisionsComeByTheStream(t *testing.T) {
	d := &diary{entries: []kept.Entry{launched(1)}}
	s := decides(t, d)
	if n := len(s.list("/api/decisions").Items); n != 1 {
		t.Fatalf("%d decisions", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.http.URL+"/api/stream", nil)
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	heard := func() {
		t.Helper()
		for lines.Scan() {
			if lines.Text() != "event: decided" {
				continue
			}
			if lines.Scan(); !strings.HasPrefix(lines.Text(), "data: ") {
				t.Fatalf("news are followed by %q", lines.Text())
			}
			return
		}
		t.Fatalf("the stream ended: %v", lines.Err())
	}
	heard()
	d.write(launched(2))
	heard()
	if list := s.list("/api/decisions"); len(list.Items) != 2 || list.Items[0].ID != "launch-2" {
		t.Errorf("%+v", list.Items)
	}
}

func TestSavingsAreThoseOfTheLedger(t *testing.T) {
	s := decides(t, &diary{entries: saved()})
	status, text := s.get("/api/savings")
	var a struct {
		Of      int
		Methods map[string]float64
		By      map[string]sums
		Ledger  kept.Ledger
		Days    []kept.Day
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil || status != http.StatusOK {
		t.Fatalf("%d %v: %s", status, err, text)
	}
	want := 0.5 * 58 / 60 // from its end until now
	if a.Of != 1 || fmt.Sprintf("%.6f", a.Ledger.Dollars) != fmt.Sprintf("%.6f", want) ||
		a.Ledger.DollarsPerHour != 0.5 || a.Methods["Empty"] != a.Ledger.Dollars || len(a.Days) != 1 ||
		a.Days[0] != (kept.Day{Date: "2026-11-22", Dollars: a.Ledger.Dollars}) {
		t.Errorf("%+v", a)
	}
	for by, want := range map[string]string{
		kept.ByPool:      "other 0.4833",
		kept.ByNamespace: "requested by no pod 0.4447; kube-system 0.0387",
		kept.ByWorkload:  "requested by no pod 0.4447; DaemonSet kube-system/logs 0.0387",
	} {
		var got []string
		for _, sum := range a.By[by].Sums {
			got = append(got, fmt.Sprintf("%s %.4f", sum, sum.Dollars))
		}
		if strings.Join(got, "; ") != want || a.By[by].Of != len(got) {
			t.Errorf("by %s: %s, %d in all; want %s", by, strings.Join(got, "; "), a.By[by].Of, want)
		}
	}
	if _, lite := s.get("/lite/savings"); !strings.Contains(lite, "<strong>$0.4833</strong>") ||
		!strings.Contains(lite, "2026-11-22<td>$0.4833") ||
		!strings.Contains(lite, "DaemonSet kube-system/logs<td>$0.0387<td>$0.0400") ||
		!strings.Contains(lite, "Compared with the same cluster") {
		t.Errorf("the page without script says %s", lite)
	}
}

// A user who may not read decisions is told whom to ask, and sees them once permitted.
func TestDecisionsThatCannotBeReadAreTriedAgain(t *testing.T) {
	d := &diary{err: fmt.Errorf("cluster x: %w", store.ErrNotAllowed)}
	s := decides(t, d)
	for _, path := range []string{"/api/decisions", "/api/savings", "/lite/decisions", "/lite/savings"} {
		if status, text := s.get(path); status != http.StatusNotFound || !strings.Contains(text, "nodeless rbac --view") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	_, more := s.decided.news()
	d.mu.Lock()
	d.err, d.entries = nil, []kept.Entry{launched(1)}
	d.mu.Unlock()
	for waiting := true; waiting; { // the pause may not have started yet
		s.clock.Advance(logPause)
		select {
		case <-more:
			waiting = false
		case <-t.Context().Done():
			t.Fatal("it is not read again")
		default:
		}
	}
	if n := len(s.list("/api/decisions").Items); n != 1 {
		t.Errorf("%d decisions", n)
	}
	bare := open(t, 1, 1)
	if status, text := bare.get("/api/decisions"); status != http.StatusNotImplemented ||
		!strings.Contains(text, "without the cluster's decisions") {
		t.Errorf("%d %s", status, text)
	}
}

// However much is decided, the page forgets what the cluster no longer keeps.
func TestOldDecisionsAreForgotten(t *testing.T) {
	d := &diary{}
	s := decides(t, d)
	_ = s.list("/api/decisions")
	var many []kept.Entry
	for i := range moreEntries + 1 {
		many = append(many, launched(i))
	}
	d.write(many...)
	d.mu.Lock()
	d.entries = d.entries[moreEntries:] // the ring has moved on
	d.mu.Unlock()
	for {
		_, more := s.decided.news()
		if list := s.list("/api/decisions"); list.Kept == 1 {
			return
		}
		select {
		case <-more:
		case <-t.Context().Done():
			t.Fatal("everything is kept")
		}
	}
}

func TestHostileDecisionsAreOnlyText(t *testing.T) {
	e := launched(1)
	e.Decision.Why, e.Decision.Pods, e.Decision.Method = hostile, []string{hostile}, hostile
	e.Decision.Launched[0].Claim = hostile
	gone := saved()
	gone[0].Decision.Removed[0].Type = hostile
	s := decides(t, &diary{entries: append(gone, e)})
	for _, path := range []string{
		"/api/decisions", "/api/savings", "/lite/decisions", "/lite/savings",
		"/lite/decisions?q=%3Cimg",
	} {
		_, text := s.get(path)
		if strings.ContainsAny(text, "\x1b\u202e\u0000") || strings.Contains(text, "<img") ||
			strings.Contains(text, "<script") || !strings.Contains(text, "x1b[31m") {
			t.Errorf("%s: %s", path, text)
		}
	}
}
