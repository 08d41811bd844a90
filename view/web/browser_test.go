package web

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unique"

	kept "github.com/nodeless/nodeless/explain/record"
	"github.com/nodeless/nodeless/explain/whatif"
	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/viewtest"
)

// stage is a page whose cluster and server are controlled by the browser's script, with requests to a second address.
type stage struct {
	t       *testing.T
	model   *view.Model
	pods    []*view.Pod
	address string
	diary   *diary
	engine  func(context.Context) (Engine, error)

	mu   sync.Mutex
	stop func()
}

// serve starts the page's server, at its previous address if it had one.
func (s *stage) serve() error {
	if s.address == "" {
		s.address = "127.0.0.1:0"
	}
	ctx, cancel := context.WithCancel(context.Background())
	l, err := Listen(ctx, s.address)
	if err != nil {
		cancel()
		return err
	}
	s.address = l.Addr().String()
	done := make(chan struct{})
	go func() {
		defer close(done)
		o := Options{
			Context: "story", Token: storyToken, Prices: view.PriceSource(), Model: s.model, Forecast: foretell, Object: told,
			Hosts: shelves, Usage: measures, Engine: s.engine, Clusters: fleetOfStory(),
		}
		if s.diary != nil {
			o.Decisions = s.diary
		}
		if err := New(o).Run(ctx, l); err != nil {
			s.t.Error(err)
		}
	}()
	s.stop = func() { cancel(); <-done }
	return nil
}

// act does what the script requests.
func (s *stage) act(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	switch r.URL.Path {
	case "/drop": // all pods of the first node are deleted
		for _, p := range s.pods {
			if p.Node == viewtest.NodeName(0) {
				s.model.DeletePod(p.UID)
			}
		}
	case "/evict": // the first pod of the sixth node is deleted
		s.model.DeletePod(s.pods[5*12].UID)
	case "/replace": // a pod like it, with another name, runs instead
		next := *s.pods[5*12]
		next.UID, next.Name = "uid-of-next", "web-5-next"
		s.model.SetPod(&next)
	case "/remove": // the second node is deleted
		s.model.DeleteNode(viewtest.NodeName(1))
		s.model.DeleteClaim(viewtest.Claim(1).Name)
	case "/hostile":
		n := *viewtest.Node(2)
		n.Labels = map[string]string{"karpenter.sh/nodepool": hostile, hostile: hostile}
		s.model.SetNode(&n)
		s.model.SetPod(&view.Pod{UID: "uid-of-odd", Namespace: "shop", Name: "odd", Created: time.Now(), Verdict: hostile})
		e := launched(61)
		e.Decision.Why, e.Decision.Launched[0].Claim, e.Decision.Pods = hostile, hostile, []string{hostile}
		s.diary.write(lately(e)...)
	case "/decide":
		s.diary.write(lately(launched(60))...)
	case "/plan": // the second node is to be removed, its pods move to the fifth and to a new one
		c := *viewtest.Claim(1)
		c.Disruption = "Underutilized"
		s.model.SetClaim(&c)
		s.model.SetClaim(arriving())
		s.diary.write(lately(planned("plan", c.Name, 0, kept.Move{To: viewtest.NodeName(4), Pods: 8},
			kept.Move{To: arriving().Name, Pods: 4}))...)
	case "/kept": // the second node stays
		s.model.SetClaim(viewtest.Claim(1))
		s.model.DeleteClaim(arriving().Name)
		s.diary.write(lately(outcome("plan", kept.Kept, "", 0))...)
	case "/long":
		s.long()
	case "/short": // what /long wrote is cleared
		s.model.Note("long", "")
	case "/bidi":
		p := viewtest.Pool("batch")
		p.Conditions[0].Message = rightToLeft
		s.model.SetPool(p)
		s.model.SetPod(&view.Pod{UID: "bidi", Namespace: "shop", Name: "bidi", Created: time.Now(), Verdict: rightToLeft})
	case "/devices": // the fifth node has GPUs and addresses, which one of its pods takes
		n, p := *viewtest.Node(4), *s.pods[4*12]
		n.Allocatable[view.GPUs], n.Allocatable[view.Addresses] = 8, 58
		p.Requests[view.GPUs], p.Requests[view.Addresses] = 3, 1
		s.model.SetNode(&n)
		s.model.SetPod(&p)
	case "/microvm":
		n := *viewtest.Node(3)
		n.Pod = "shop/alone"
		s.model.SetNode(&n)
	case "/down":
		s.stop()
		s.stop = func() {}
	case "/up":
		err = s.serve()
	default:
		http.NotFound(w, r)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// rightToLeft is Hebrew, Arabic and an emoji of several code points.
const rightToLeft = "מאגר مجمع 👩\u200d💻"

// longest is a name of the greatest length, which no line can break in a good place.
var longest = strings.Repeat(strings.Repeat("a", 63)+".", 4)[:253]

// long adds a node, pods, a pool, a label, a decision and a note with the longest names.
func (s *stage) long() {
	c, n, p := *viewtest.Claim(61), *viewtest.Node(61), viewtest.Pool("batch")
	c.Name, c.Node = "b"+longest[1:], longest
	c.Labels = maps.Clone(c.Labels)
	c.Labels["karpenter.sh/nodepool"], c.Labels[longest] = longest, longest
	n.Name, n.Labels = longest, c.Labels
	p.Name, p.Limits[0].Resource, p.Conditions[0].Message = longest, longest, longest
	s.model.SetPool(p)
	s.model.SetClaim(&c)
	s.model.SetNode(&n)
	runs := *viewtest.Pod(61, 0, 1)
	runs.Namespace, runs.Name, runs.Node = longest[:63], longest, longest
	runs.Workload = unique.Make(view.Object{Kind: "Deployment", Namespace: longest[:63], Name: longest})
	s.model.SetPod(&runs)
	s.model.SetPod(&view.Pod{UID: "long", Namespace: longest[:63], Name: longest, Created: time.Now(), Verdict: longest})
	s.model.Say(view.Object{Kind: "Node", Name: longest}, view.Said{Reason: longest, Message: longest, At: time.Now()})
	s.model.Note("long", longest)
	e := launched(63)
	e.Decision.Why, e.Decision.Launched[0].Claim, e.Decision.Launched[0].Pool = longest, longest, longest
	e.Decision.Pods = []string{longest}
	s.diary.write(lately(e)...)
}

// arriving returns a NodeClaim that was just created.
func arriving() *view.Claim {
	c := view.Claim{Created: time.Now()}
	c.Name, c.Labels = viewtest.Claim(60).Name, viewtest.Claim(60).Labels
	return &c
}

// lately shifts the times of the story's decisions to the browser's time.
func lately(entries ...kept.Entry) []kept.Entry {
	by := time.Since(viewtest.Now)
	for _, e := range entries {
		if e.Decision != nil {
			e.Decision.Time = e.Decision.Time.Add(by)
		} else {
			e.Outcome.Time = e.Outcome.Time.Add(by)
		}
	}
	return entries
}

// foretell answers like a forecast: one node of two would be removed.
func foretell(_ context.Context, q WhatIf) (any, error) {
	if len(q.Scales) > 0 && !strings.Contains(q.Scales[0], "=") {
		return nil, fmt.Errorf("--scale %q: want deployment/NAME=N", q.Scales[0])
	}
	before, after := whatif.State{Nodes: 2, DollarsPerMonth: 100}, whatif.State{Nodes: 1, DollarsPerMonth: 60}
	m := whatif.Node{Name: "ip-10-0-0-1", Type: "c6a.4xlarge"}
	o := whatif.Outcome{
		Changes: []string{"NodePool old is deleted" + hostile}, Before: before, Unchanged: before, After: after, Seconds: 130,
		Settled: true, Removed: []whatif.Node{m},
		Steps: []whatif.Step{{
			AfterSeconds: 10, Action: whatif.Remove, Method: "Drifted", Removed: []whatif.Node{m},
			Pods: 3, Budget: "10%", Why: "its pool is gone",
		}},
		Evictions: []whatif.Eviction{{Pod: "shop/web-0", Node: m.Name, AfterSeconds: 12}},
		Unplaced:  []whatif.Finding{{Name: "shop/big", Why: "no pool"}},
	}
	return struct {
		whatif.Outcome
		Differs bool `json:"differs"`
	}{o, o.Differs()}, nil
}

// needBrowser skips the test if there is no browser, or fails it if one is required.
func needBrowser(t *testing.T) {
	t.Helper()
	problem := ""
	if _, err := exec.LookPath("chromium"); err != nil {
		problem = "no chromium: scripts/test-deps installs it"
	} else if _, err := dist.Open("dist/index.html"); err != nil {
		problem = "the page is not built: make page"
	} else if _, err := os.Stat(filepath.Join("page", "node_modules", "axe-core")); err != nil {
		problem = "no playwright or axe-core: npm ci --ignore-scripts in view/web/page"
	}
	switch {
	case problem == "":
	case os.Getenv("NODELESS_REQUIRE_BROWSER") != "":
		t.Fatal(problem)
	default:
		t.Skip(problem)
	}
}

// A user goes through the page in a real browser; page/test/page.mjs is what they do and expect.
func TestAPersonGoesThroughThePage(t *testing.T) { inBrowser(t, "page.mjs") }

// So does a user who reads Korean: page/test/korean.mjs.
func TestThePageIsInKorean(t *testing.T) { inBrowser(t, "korean.mjs") }

// So does a user of a cluster that has too much of everything, and a clock that is wrong: page/test/limits.mjs.
func TestThePageAtItsLimits(t *testing.T) { inBrowser(t, "limits.mjs") }

// inBrowser runs a story of page/test with a small cluster. SCREENSHOTS is the folder for pictures.
func inBrowser(t *testing.T, story string) {
	t.Helper()
	needBrowser(t)
	s := &stage{t: t}
	s.model, s.pods = viewtest.Cluster(60, 12)
	s.diary = &diary{entries: lately(append(saved(), launched(1), launched(2))...)}
	if err := s.serve(); err != nil {
		t.Fatal(err)
	}
	defer func() { s.stop() }()
	control, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(s.act), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(control) }()
	defer server.Close()
	pictures := os.Getenv("SCREENSHOTS")
	if pictures == "" {
		pictures = t.TempDir()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // it takes one on a quiet machine
	defer cancel()
	script := exec.CommandContext(ctx, "node", "test/"+story, Link(s.address, storyToken),
		fmt.Sprintf("http://%s", control.Addr()), pictures)
	script.Dir = filepath.Join("page")
	out, err := script.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
}
