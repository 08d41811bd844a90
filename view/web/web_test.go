package web

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/viewtest"
)

// site is a page of a made-up cluster whose clock the test controls.
type site struct {
	*testing.T
	*Server
	clock   *clock.Virtual
	model   *view.Model
	pods    []*view.Pod
	journal *view.Journal
	http    *httptest.Server
}

func open(t *testing.T, nodes, podsEach int) *site {
	m, pods := viewtest.Cluster(nodes, podsEach)
	c := clock.NewVirtual(viewtest.Now)
	s := &site{
		T: t, Server: New(Options{Context: "story", Model: m, Clock: c, Token: storyToken}), clock: c, model: m,
		pods: pods,
	}
	s.journal = m.Journal()
	s.http = httptest.NewServer(s.visitor())
	t.Cleanup(s.http.Close)
	return s
}

// storyToken is the token of all pages in these tests.
const storyToken = "token-of-the-story"

// visitor returns the page as seen by a user with its token.
func (s *site) visitor() http.Handler {
	h := s.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+storyToken)
		h.ServeHTTP(w, r)
	})
}

// step makes a frame of the changes, a second after the previous one.
func (s *site) step(change func()) {
	change()
	s.clock.Advance(time.Second + 123*time.Nanosecond)
	s.journal = s.advance(s.journal)
}

// message is a message to the page.
type message struct {
	Epoch  string            `json:"e"`
	Seq    int64             `json:"s"`
	At     int64             `json:"t"`
	Now    int64             `json:"n"`
	From   int               `json:"f"`
	Kinds  []kind            `json:"k"`
	Set    []json.RawMessage `json:"m"`
	Gone   []uint64          `json:"g"`
	Totals totals            `json:"o"`
	event  string
	id     string
}

// nodes applies a message as the page does, and returns each node's record by ID.
func nodes(t *testing.T, into map[uint64]string, m *message) map[uint64]string {
	t.Helper()
	if m.event == "state" || into == nil {
		into = map[uint64]string{}
	}
	for _, raw := range m.Set {
		var fields []json.RawMessage
		var id uint64
		if err := errors.Join(json.Unmarshal(raw, &fields), json.Unmarshal(fields[0], &id)); err != nil {
			t.Fatal(err)
		}
		into[id] = string(raw)
	}
	for _, id := range m.Gone {
		delete(into, id)
	}
	return into
}

// reader follows the stream.
type reader struct {
	*testing.T
	lines *bufio.Reader
	close func()
}

func (s *site) follow(last string) *reader {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.http.URL+"/api/stream", nil)
	if err != nil {
		s.Fatal(err)
	}
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	r := &reader{s.T, bufio.NewReader(resp.Body), func() { cancel(); _ = resp.Body.Close() }}
	s.Cleanup(r.close)
	return r
}

// next returns the next event.
func (r *reader) next() *message {
	r.Helper()
	m := &message{}
	for {
		line, err := r.lines.ReadString('\n')
		if err != nil {
			r.Fatal(err)
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "event":
			m.event = value
		case "id":
			m.id = value
		case "data":
			if err := json.Unmarshal([]byte(value), m); err != nil {
				r.Fatalf("%v in %s", err, value)
			}
		}
		if line == "" && m.event != "" {
			return m
		}
	}
}

func (s *site) get(path string) (int, string) {
	s.Helper()
	resp, err := http.Get(s.http.URL + path)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestAReaderGetsEverythingAndThenWhatChanges(t *testing.T) {
	s := open(t, 20, 3)
	s.step(func() {})
	s.clock.Advance(4 * time.Minute)
	r := s.follow("")
	first := r.next()
	if first.Now != s.clock.Now().UnixMilli() || first.Now-first.At != 240_000 {
		t.Errorf("of %d it was told at %d that it is %d", first.At, s.clock.Now().UnixMilli(), first.Now)
	}
	if first.event != "state" || len(first.Set) != 20 || first.Totals.Bound != 60 || len(first.Kinds) == 0 {
		t.Fatalf("%s with %d nodes, totals %+v, %d kinds", first.event, len(first.Set), first.Totals, len(first.Kinds))
	}
	s.step(func() { s.model.DeletePod(s.pods[0].UID) })
	second := r.next()
	if second.event != "frame" || len(second.Set) != 1 || !strings.Contains(string(second.Set[0]), `,"rr",`) ||
		second.Totals.Bound != 59 {
		t.Errorf("a pod went, and the page was told %s %s, totals %+v", second.event, second.Set, second.Totals)
	}
	s.step(func() { s.model.DeleteNode(viewtest.NodeName(1)); s.model.DeleteClaim(viewtest.Claim(1).Name) })
	third := r.next()
	if len(third.Set) != 0 || len(third.Gone) != 1 || third.At-second.At != 1000 {
		t.Errorf("a node went, and the page was told %s, gone %v, %d ms later", third.Set, third.Gone, third.At-second.At)
	}
}

// A client that was away continues where it was; one that was away too long, or followed another process, gets
// everything.
func TestAReaderWhoWasAwayGoesOn(t *testing.T) {
	s := open(t, 20, 3)
	s.step(func() {})
	r := s.follow("")
	seen := nodes(t, nil, r.next())
	r.close()
	var want string
	for i := range 10 {
		s.step(func() { s.model.DeletePod(s.pods[3*i].UID) })
	}
	again := s.follow(s.history.epoch + ".1")
	for range 10 {
		m := again.next()
		if m.event != "frame" {
			t.Fatalf("got %s instead of what was missed", m.event)
		}
		seen = nodes(t, seen, m)
		want = m.id
	}
	whole := s.follow("")
	state := whole.next()
	if state.id != want {
		t.Errorf("the newest is %s for one and %s for the other", want, state.id)
	}
	if all := nodes(t, nil, state); !equal(all, seen) {
		t.Errorf("who went on sees other nodes than who came new")
	}
	for _, last := range []string{
		"another.1", s.history.epoch + ".99", s.history.epoch + ".x", "nonsense",
		s.history.epoch + ".-1",
	} {
		if m := s.follow(last).next(); m.event != "state" {
			t.Errorf("after %q came %s", last, m.event)
		}
	}
}

func equal(a, b map[uint64]string) bool {
	if len(a) != len(b) {
		return false
	}
	for id, text := range a {
		if b[id] != text {
			return false
		}
	}
	return true
}

// The history is bounded, and its oldest state stays correct.
func TestHistoryForgetsTheOldestAndStaysTrue(t *testing.T) {
	s := open(t, 10, 2)
	s.history.bounds = bounds{frames: 5, bytes: 1 << 20, kinds: 100}
	s.step(func() {})
	for i := range 12 {
		s.step(func() {
			n := *viewtest.Node(i % 10)
			n.Cordoned = i < 10
			s.model.SetNode(&n)
		})
	}
	if n := len(s.history.frames); n != 5 {
		t.Errorf("%d frames are kept", n)
	}
	last := s.history.last()
	f, then := s.history.at(viewtest.Now) // earlier than the whole history
	cordoned := func(nodes map[uint64]*record) (n int) {
		for _, r := range nodes {
			if strings.Contains(string(r.json), `"Cordoned"`) {
				n++
			}
		}
		return n
	}
	// The base is the state before the oldest frame: the nodes existed, and frames up to its number were applied.
	if f.seq != last.seq-5 || cordoned(then) != int(f.seq)-1 {
		t.Errorf("the oldest is frame %d with %d cordoned nodes", f.seq, cordoned(then))
	}
	if _, now := s.history.at(s.clock.Now()); cordoned(now) != 8 {
		t.Errorf("%d nodes are cordoned now, want 8", cordoned(now))
	}
	if _, ok := s.history.after(s.history.epoch + ".1"); ok {
		t.Errorf("frames that were forgotten are given")
	}
	s.history.bounds.bytes = 1
	s.step(func() {
		n := *viewtest.Node(0)
		n.Cordoned = true
		s.model.SetNode(&n)
	})
	if n := len(s.history.frames); n != 1 {
		t.Errorf("%d frames are kept where there is no room for two", n)
	}
}

// A frame in which nothing changed would push out one in which something did: kubelets write their Nodes' status every
// few minutes.
func TestHistoryKeepsOnlyChanges(t *testing.T) {
	s := open(t, 3, 1)
	for range 5 {
		s.step(func() { s.model.SetNode(viewtest.Node(0)) })
	}
	if n := len(s.history.frames); n != 1 {
		t.Errorf("%d frames of one state", n)
	}
}

func TestAMomentOfThePastIsAsItWas(t *testing.T) {
	s := open(t, 3, 1)
	s.step(func() {})
	var first message
	if status, text := s.get("/api/at?t=1"); status != http.StatusOK || json.Unmarshal([]byte(text), &first) != nil ||
		len(first.Set) != 3 || first.At <= 0 {
		t.Errorf("before the first frame: %s", text)
	}
	before := s.clock.Now()
	s.step(func() { s.model.DeleteNode(viewtest.NodeName(0)); s.model.DeleteClaim(viewtest.Claim(0).Name) })
	var then, now message
	for at, into := range map[time.Time]*message{before: &then, s.clock.Now(): &now} {
		status, text := s.get("/api/at?t=" + jsonNumber(at.UnixMilli()))
		if err := json.Unmarshal([]byte(text), into); status != http.StatusOK || err != nil {
			t.Fatal(status, err, text)
		}
	}
	if len(then.Set) != 3 || then.Totals.Rows != 3 || len(now.Set) != 2 {
		t.Errorf("then %d nodes (totals %d), now %d", len(then.Set), then.Totals.Rows, len(now.Set))
	}
	status, text := s.get("/api/frames?after=" + then.Epoch + "." + jsonNumber(then.Seq))
	var frames []message
	if err := json.Unmarshal([]byte(text), &frames); err != nil || len(frames) != 1 || len(frames[0].Gone) != 1 {
		t.Errorf("%d %v: what came after is %s", status, err, text)
	}
	if status, _ = s.get("/api/frames?after=other.3"); status != http.StatusGone {
		t.Errorf("frames of another process: status %d", status)
	}
	var points [][6]int64
	_, text = s.get("/api/history")
	if err := json.Unmarshal([]byte(text), &points); err != nil || len(points) != 2 || points[0][2] != 3 ||
		points[1][2] != 2 {
		t.Errorf("%v: the line of time is %s", err, text)
	}
}

func jsonNumber(n int64) string { text, _ := json.Marshal(n); return string(text) }

func TestKindsThatAreTooManyBeginAnew(t *testing.T) {
	s := open(t, 6, 1)
	s.history.bounds.kinds = 4
	s.step(func() {})
	epoch := s.history.epoch
	s.step(func() { s.model.DeletePod(s.pods[0].UID) })
	if s.history.epoch == epoch || len(s.history.now) != 6 {
		t.Errorf("epoch %s → %s, %d nodes", epoch, s.history.epoch, len(s.history.now))
	}
}

// shifted is a clock that is set back by some time.
type shifted struct {
	clock.Clock
	by time.Duration
}

func (c *shifted) Now() time.Time { return c.Clock.Now().Add(-c.by) }

// If the clock is set back a little, the timeline stands still; if by more, it starts anew. What is shown is
// complete.
func TestAClockThatIsSetBack(t *testing.T) {
	s := open(t, 6, 1)
	c := &shifted{Clock: s.clock}
	s.o.Clock = c
	s.step(func() {})
	s.step(func() { s.model.DeletePod(s.pods[0].UID) })
	epoch, at := s.history.epoch, s.history.last().at
	c.by = 30 * time.Second
	s.step(func() { s.model.DeletePod(s.pods[1].UID) })
	if now := s.history.last().at; !now.Equal(at) || s.history.epoch != epoch {
		t.Errorf("half a minute back: from %v to %v, epoch %s → %s", at, now, epoch, s.history.epoch)
	}
	c.by = 2 * time.Hour
	s.step(func() { s.model.DeletePod(s.pods[2].UID) })
	if now := s.history.last().at; !now.Before(at.Add(-time.Hour)) || s.history.epoch == epoch ||
		len(s.history.frames) != 1 || len(s.history.now) != 6 {
		t.Errorf("two hours back: %v, epoch %s, %d frames, %d nodes", now, s.history.epoch, len(s.history.frames),
			len(s.history.now))
	}
	c.by = -48 * time.Hour
	s.step(func() { s.model.DeletePod(s.pods[3].UID) })
	if m := s.follow("").next(); m.event != "state" || len(m.Set) != 6 || m.Totals.Bound != 2 {
		t.Errorf("two days on: %s of %d nodes, totals %+v", m.event, len(m.Set), m.Totals)
	}
}

// A node's letters are in the order of its list of pods.
func TestLettersAreInTheOrderOfThePods(t *testing.T) {
	s := open(t, 1, 12)
	s.step(func() {
		now := *s.pods[10]
		now.Deleting = true
		s.model.SetPod(&now)
		s.model.SetPod(&view.Pod{UID: "uid-of-agent", Namespace: "kube-system", Name: "agent", Node: viewtest.NodeName(0)})
	})
	var list []pod
	_, text := s.get("/api/pods?node=" + viewtest.NodeName(0))
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, p := range list {
		switch {
		case p.Namespace == "kube-system":
			want.WriteString("P")
		case p.Deleting:
			want.WriteString("t")
		default:
			want.WriteString("r")
		}
	}
	m := s.follow("").next()
	if !strings.Contains(string(m.Set[0]), `,"`+want.String()+`",`) || len(list) != 13 {
		t.Errorf("%s has not the letters %s", m.Set[0], want.String())
	}
	_, text = s.get("/api/find?q=web-0-10")
	var found map[string][]int
	if err := json.Unmarshal([]byte(text), &found); err != nil ||
		!slices.Equal(found[viewtest.NodeName(0)], []int{slices.IndexFunc(list, func(p pod) bool { return p.Deleting })}) {
		t.Errorf("%v: found %s", err, text)
	}
}

// A quiet cluster's page, too, stops to say why a node is kept once the controller has stopped to.
func TestWhyANodeIsKeptEndsWithTime(t *testing.T) {
	s := open(t, 1, 1)
	s.model.Say(view.Object{Kind: "Node", Name: viewtest.NodeName(0)},
		view.Said{Reason: "Unconsolidatable", Message: "too dear elsewhere", At: viewtest.Now.Add(-29 * time.Minute)})
	<-s.model.Changed()
	go s.Server.follow(t.Context())
	r := s.follow("")
	var all map[uint64]string
	wait := func(kept bool) {
		for len(all) == 0 || strings.Contains(fmt.Sprint(all), "kept: too dear") != kept {
			all = nodes(t, all, r.next())
		}
	}
	wait(true)
	s.clock.Advance(2 * time.Minute)
	wait(false)
}
