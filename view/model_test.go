package view_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nodeless/nodeless/explain/record"
	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/viewtest"
)

func model(t testing.TB) *view.Model {
	t.Helper()
	m, err := view.New([]string{"cpu", "memory"})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func names(m *view.Model, q view.Query) string {
	var out []string
	for _, l := range m.Nodes(q).Rows {
		if l.Head != nil {
			out = append(out, fmt.Sprintf("%s:%d", l.Group, l.Head.Rows))
			continue
		}
		out = append(out, l.Row.Name)
	}
	return strings.Join(out, " ")
}

// facts is a small cluster in plain maps, without a Model.
type facts struct {
	nodes  map[string]*view.Node
	claims map[string]*view.Claim
	pods   map[string]*view.Pod
	pod    int // counts them
}

// totals recomputes all sums, in the slow and obvious way.
func (f *facts) totals() (s view.Sums, waiting int) {
	asked, count := map[string]view.Amounts{}, map[string]int{}
	for _, p := range f.pods {
		switch {
		case p.Phase == view.Ended:
		case p.Node == "":
			waiting++
		default:
			a := asked[p.Node]
			for i := range a {
				a[i] += p.Requests[i]
			}
			asked[p.Node], count[p.Node] = a, count[p.Node]+1
		}
	}
	owned := map[string]bool{} // nodes with a claim
	for _, c := range f.claims {
		var node *view.Node
		for _, n := range f.nodes {
			if c.ProviderID != "" && n.ProviderID == c.ProviderID || n.ProviderID == "" && c.Node == n.Name {
				node = n
			}
		}
		if node == nil {
			s.Rows++
			if !c.Launched.IsZero() {
				s.Price += c.Price
			}
			continue
		}
		owned[node.Name] = true
	}
	for _, n := range f.nodes {
		s.Rows++
		s.Nodes++
		s.Pods += count[n.Name]
		s.Price += n.Price
		for i := range s.Requests {
			s.Requests[i] += asked[n.Name][i]
			s.Allocatable[i] += n.Allocatable[i]
		}
	}
	return s, waiting
}

// Whatever the order of changes, the incrementally updated sums equal recomputed ones.
func TestSumsAreKeptAsThingsChange(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		m, f := model(t), &facts{map[string]*view.Node{}, map[string]*view.Claim{}, map[string]*view.Pod{}, 0}
		for step := range 120 {
			f.change(m, r)
			got := m.Totals()
			want, waiting := f.totals()
			if got.Rows != want.Rows || got.Nodes != want.Nodes || got.Pods != want.Pods || got.Price != want.Price ||
				got.Requests != want.Requests || got.Allocatable != want.Allocatable || got.Waiting != waiting {
				t.Fatalf("seed %d, step %d: kept %+v, %d waiting; added up %+v, %d waiting", seed, step, got.Sums, got.Waiting,
					want, waiting)
			}
			if page := m.Nodes(view.Query{}); page.Lines != want.Rows {
				t.Fatalf("seed %d, step %d: %d rows for %d nodes", seed, step, page.Lines, want.Rows)
			}
		}
	}
}

// change adds, changes or deletes one of a few objects. A NodeClaim gets its provider ID and then its node, and never
// others; a Node may get its provider ID after it was added.
func (f *facts) change(m *view.Model, r *rand.Rand) {
	i := r.IntN(4)
	node, claim := viewtest.Node(i), viewtest.Claim(i)
	node.Allocatable, claim.Allocatable = view.Amounts{4000, 8 * viewtest.Gi}, view.Amounts{}
	switch r.IntN(7) {
	case 0, 1:
		node.Ready = r.IntN(2) == 0
		if old := f.nodes[node.Name]; (old == nil || old.ProviderID == "") && r.IntN(2) == 0 {
			node.ProviderID = ""
		}
		f.nodes[node.Name] = node
		m.SetNode(node)
	case 2:
		delete(f.nodes, node.Name)
		m.DeleteNode(node.Name)
	case 3:
		if f.claims[claim.Name] == nil {
			claim.ProviderID, claim.Node, claim.Launched = "", "", time.Time{}
		} else if r.IntN(2) == 0 && f.claims[claim.Name].Node == "" {
			claim.Node = ""
		}
		f.claims[claim.Name] = claim
		m.SetClaim(claim)
	case 4:
		delete(f.claims, claim.Name)
		m.DeleteClaim(claim.Name)
	default:
		p := viewtest.Pod(i, r.IntN(3), 3)
		key := p.Namespace + "/" + p.Name
		old := f.pods[key]
		f.pod++
		p.UID = fmt.Sprint("uid-", f.pod)
		switch {
		case old != nil && r.IntN(3) == 0: // sometimes another pod takes its name
			delete(f.pods, key)
			m.DeletePod(old.UID)
			if r.IntN(2) == 0 {
				return
			}
			p.Node, p.Phase = "", view.Pending
		case old == nil:
			p.Node, p.Phase = "", view.Pending
		case r.IntN(4) == 0:
			p.UID, p.Phase = old.UID, view.Ended
		default:
			p.UID = old.UID
		}
		f.pods[key] = p
		m.SetPod(p)
	}
}

func TestAClaimIsARowUntilItsNodeIsThere(t *testing.T) {
	m := model(t)
	c := viewtest.Claim(1)
	asked := *c
	asked.Node, asked.ProviderID, asked.Launched, asked.Registered, asked.Initialized = "", "", time.Time{},
		time.Time{}, time.Time{}
	m.SetClaim(&asked)
	want := func(name string, status view.Status, price int64) view.NodeRow {
		t.Helper()
		rows := m.Nodes(view.Query{}).Rows
		if len(rows) != 1 || rows[0].Row.Name != name || rows[0].Row.Status != status || rows[0].Row.Price != price {
			t.Fatalf("got %+v, want one row %s that is %s for %d", rows, name, status, price)
		}
		return rows[0].Row
	}
	want(c.Name, view.StatusLaunching, 0)
	launched := asked
	launched.ProviderID, launched.Launched = c.ProviderID, c.Launched
	m.SetClaim(&launched)
	want(c.Name, view.StatusLaunched, c.Price)
	n := viewtest.Node(1)
	n.Ready = false
	m.SetNode(n)
	want(n.Name, view.StatusNotReady, c.Price)
	ready := viewtest.Node(1)
	m.SetNode(ready)
	want(n.Name, view.StatusRegistered, c.Price)
	m.SetClaim(c)
	if r := want(n.Name, view.StatusReady, c.Price); r.ReadyIn != 44*time.Second || r.Claim != c.Name {
		t.Errorf("ready in %s by claim %q", r.ReadyIn, r.Claim)
	}
	going := *c
	going.Disruption, going.Drift = "Underutilized, after 1 replacement(s)", "drifted: NodePoolDrifted"
	m.SetClaim(&going)
	if r := want(n.Name, view.StatusDisrupted, c.Price); strings.Join(r.Why,
		"|") != "Underutilized, after 1 replacement(s)|drifted: NodePoolDrifted" {
		t.Errorf("why: %q", r.Why)
	}
	if got := m.Totals(); got.Going != 1 || got.NotReady != 0 {
		t.Errorf("%+v", got)
	}
	m.DeleteNode(n.Name)
	m.DeleteClaim(c.Name)
	if got := m.Totals(); got.Sums != (view.Sums{}) || m.Nodes(view.Query{}).Lines != 0 {
		t.Errorf("something is left: %+v", got)
	}
}

// A cloud controller manager sets a Node's provider ID some time after its kubelet has registered it.
func TestANodeJoinsItsClaimOnceItsProviderIDIsKnown(t *testing.T) {
	m := model(t)
	c, n := viewtest.Claim(1), *viewtest.Node(1)
	c.Node, n.ProviderID = "", ""
	m.SetClaim(c)
	m.SetNode(&n)
	m.SetPod(viewtest.Pod(1, 0, 1))
	m.SetNode(viewtest.Node(1))
	rows := m.Nodes(view.Query{}).Rows
	if len(rows) != 1 || rows[0].Row.Name != n.Name || rows[0].Row.Claim != c.Name || rows[0].Row.Pods != 1 {
		t.Errorf("got %+v, want one row %s of NodeClaim %s with a pod", rows, n.Name, c.Name)
	}
	if got := m.Totals(); got.Rows != 1 || got.Price != n.Price || got.Pods != 1 {
		t.Errorf("got %d rows for %d with %d pods, want the price of one, %d", got.Rows, got.Price, got.Pods, n.Price)
	}
}

func TestRowsAreFilteredSortedAndGrouped(t *testing.T) {
	m, _ := viewtest.Cluster(12, 4)
	short := func(q view.Query) string {
		return strings.NewReplacer(".us-west-2.compute.internal", "", "ip-10-0-0-", "").Replace(names(m, q))
	}
	for _, c := range []struct {
		query view.Query
		want  string
	}{
		{view.Query{}, "0 1 2 3 4 5 6 7 8 9 10 11"},
		{view.Query{Sort: view.ParseSort("creation=dsc")}, "11 10 9 8 7 6 5 4 3 2 1 0"},
		{view.Query{Sort: view.ParseSort("node")}, "0 1 2 3 4 5 6 7 8 9 10 11"},
		{view.Query{Sort: view.ParseSort("eks-node-viewer/node-cpu-usage=dsc")}, "2 4 6 8 10 1 3 5 7 9 11 0"},
		{view.Query{Filter: "spot"}, "0 10"},
		{view.Query{Filter: "SPOT !c6a"}, "10"},
		{view.Query{Filter: "zone=us-west-2b team!=team-1"}, "4 7 10"},
		{view.Query{Filter: "pool=batch r6i"}, "5 8"},
		{view.Query{Filter: "nothing-is-called-so"}, ""},
		{view.Query{Filter: "spot", Group: "type"}, "c6a.4xlarge:1 0 m7g.2xlarge:1 10"},
		{
			view.Query{Filter: "us-west-2c", Group: "team", Sort: view.ParseSort("price=dsc")},
			"team-0:1 5 team-1:1 11 team-2:1 2 team-3:1 8",
		},
	} {
		if got := short(c.query); got != c.want {
			t.Errorf("%+v\ngot  %s\nwant %s", c.query, got, c.want)
		}
	}
}

// The selected row stays selected and visible while other rows come and go around it.
func TestTheWindowFollowsTheChosenRow(t *testing.T) {
	m, _ := viewtest.Cluster(10, 1)
	q := view.Query{Sort: view.ParseSort("node"), Window: view.Window{Index: 7, Height: 3}}
	p := m.Nodes(q)
	if p.Window.Key != viewtest.NodeName(7) || p.Window.Top != 5 || len(p.Rows) != 3 {
		t.Fatalf("%+v", p.Window)
	}
	m.DeleteNode(viewtest.NodeName(1))
	m.DeleteClaim(viewtest.Claim(1).Name)
	q.Window = p.Window
	q.Window.Height = 3
	if p = m.Nodes(q); p.Window.Index != 6 || p.Rows[p.Window.Index-p.Window.Top].Row.Name != viewtest.NodeName(7) {
		t.Fatalf("%+v", p.Window)
	}
	q.Window = view.Window{Index: 1 << 30, Height: 4}
	if p = m.Nodes(q); p.Window.Index != 8 || p.Window.Top != 5 || len(p.Rows) != 4 {
		t.Fatalf("%+v", p.Window)
	}
}

func TestWhyAPodWaits(t *testing.T) {
	m := model(t)
	at := viewtest.Now.Add(-time.Minute)
	fresh := &view.Pod{UID: "uid-of-fresh", Namespace: "shop", Name: "fresh", Created: viewtest.Now}
	told := &view.Pod{UID: "uid-of-told", Namespace: "shop", Name: "told", Created: at, Verdict: "0/3 nodes are available"}
	gated := &view.Pod{UID: "uid-of-gated", Namespace: "shop", Name: "gated", Created: at.Add(-time.Hour), Gated: true}
	for _, p := range []*view.Pod{fresh, told, gated} {
		m.SetPod(p)
	}
	waiting := func() string {
		var out []string
		for _, r := range m.Waiting(view.Query{}).Rows {
			out = append(out, r.Name+": "+r.Why)
		}
		return strings.Join(out, "\n")
	}
	if got, want := waiting(),
		"gated: its scheduling gates have to be removed\ntold: 0/3 nodes are available\nfresh: not evaluated yet"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	pod := view.Object{Kind: "Pod", Namespace: "shop", Name: "told"}
	m.Say(pod, view.Said{Reason: "FailedScheduling", Message: "no pool allows arch arm64", At: at})
	m.Say(pod, view.Said{Reason: "FailedScheduling", Message: "older", At: at.Add(-time.Second)})
	if got := waiting(); !strings.Contains(got, "told: no pool allows arch arm64") {
		t.Error(got)
	}
	if got := m.Waiting(view.Query{Filter: "arm64"}); got.Shown != 1 || got.Of != 3 {
		t.Errorf("%d of %d", got.Shown, got.Of)
	}
	// Another pod takes its name: events of the first do not apply to the second.
	m.Say(pod, view.Said{
		Reason: "FailedScheduling", Message: "no pool allows arch arm64", At: at.Add(time.Second),
		UID: told.UID,
	})
	again := *told
	again.UID = "uid-of-told-again"
	m.SetPod(&again)
	m.DeletePod(told.UID)
	if got := waiting(); !strings.Contains(got, "told: 0/3") {
		t.Error(got)
	}
	m.Say(pod, view.Said{
		Reason: "FailedScheduling", Message: "no pool allows arch arm64", At: at.Add(2 * time.Second),
		UID: again.UID,
	})
	m.DeletePod(told.UID) // a late event of the first
	at = at.Add(2 * time.Second)
	if got := waiting(); !strings.Contains(got, "told: no pool allows arch arm64") {
		t.Error(got)
	}
	m.Unsay(pod, at)
	if got := waiting(); !strings.Contains(got, "told: 0/3") {
		t.Error(got)
	}
}

func TestWhatIsWrongWithResources(t *testing.T) {
	for _, bad := range [][]string{nil, {"cpu", "cpu"}, {""}, {"a", "b", "c", "d", "e"}} {
		if _, err := view.New(bad); err == nil || !strings.Contains(err.Error(), "resources") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// Pieces of the log arrive in any order, are replaced and removed; the oldest entries of a log that is too long are
// dropped.
func TestTheLogIsBounded(t *testing.T) {
	m := model(t)
	piece := func(place, n int) []record.Entry {
		var out []record.Entry
		for i := range n {
			out = append(out, record.Entry{Decision: &record.Decision{
				ID:   fmt.Sprintf("%d-%d", place, i),
				Time: viewtest.Now.Add(time.Duration(place)*time.Hour + time.Duration(i)*time.Millisecond), Kind: record.Launch,
			}})
		}
		return out
	}
	m.SetPiece("b", 2, piece(2, 3))
	m.SetPiece("a", 1, piece(1, 2))
	m.SetPiece("b", 2, piece(2, 4))
	if n, _ := m.Decided(); n != 6 {
		t.Errorf("%d decisions, want 6", n)
	}
	page := m.Decisions(view.About{}, view.Query{Window: view.Window{Height: 2}})
	if len(page.Rows) != 2 || page.Rows[0].ID != "2-3" || page.Of != 6 {
		t.Errorf("the newest are not first: %+v", page)
	}
	m.SetPiece("a", 1, nil)
	if n, _ := m.Decided(); n != 4 {
		t.Errorf("%d decisions, want 4", n)
	}
	for place := 3; place < 40; place++ {
		m.SetPiece(fmt.Sprint("p", place), int64(place), piece(place, 1000))
	}
	if n, _ := m.Decided(); n != 30_000 {
		t.Errorf("%d decisions are kept, want 30000", n)
	}
	if page := m.Decisions(view.About{},
		view.Query{Window: view.Window{Index: 1 << 30, Height: 1}}); page.Rows[0].ID != "10-0" {
		t.Errorf("the oldest that is kept is %s", page.Rows[0].ID)
	}
}

// A node may have the name of an earlier one. Decisions about it are those about its NodeClaim.
func TestDecisionsAreOfOneNodeOfTheName(t *testing.T) {
	m := model(t)
	var entries []record.Entry
	for i, claim := range []string{"general-1", "general-2"} {
		entries = append(entries, record.Entry{Decision: &record.Decision{
			ID: claim, Time: viewtest.Now.Add(time.Duration(i) * time.Hour), Kind: record.Remove,
			Removed: []record.RemovedNode{{Node: "ip-10-0-0-7", Claim: claim}},
		}})
	}
	m.SetPiece("a", 1, entries)
	for claim, want := range map[string]int{"general-2": 1, "": 2} {
		page := m.Decisions(view.About{Kind: "node", Name: "ip-10-0-0-7", Claim: claim}, view.Query{})
		if len(page.Rows) != want || page.Rows[0].ID != "general-2" {
			t.Errorf("of NodeClaim %q: %d decisions, want %d", claim, len(page.Rows), want)
		}
	}
}

// The controller repeats why it keeps a node; when it has stopped to, that is not shown any more.
func TestWhyANodeIsKeptIsNotShownForLong(t *testing.T) {
	m := model(t)
	m.SetNode(viewtest.Node(0))
	name := viewtest.NodeName(0)
	kept := func() bool {
		r, _ := m.Node(name)
		return strings.Contains(strings.Join(r.Why, "\n"), "kept: ")
	}
	for _, reason := range []string{"Unconsolidatable", "DisruptionBlocked"} {
		for ago, want := range map[time.Duration]bool{50 * time.Minute: false, 20 * time.Minute: true} {
			m.Say(view.Object{Kind: "Node", Name: name}, view.Said{Reason: reason, Message: "x", At: viewtest.Now.Add(-ago)})
			view.SetTime(m, viewtest.Now)
			if kept() != want {
				t.Errorf("%s, %s ago: kept is shown: %t", reason, ago, !want)
			}
			m.Unsay(view.Object{Kind: "Node", Name: name}, viewtest.Now.Add(-ago))
		}
	}
	m.Say(view.Object{Kind: "Node", Name: name}, view.Said{Reason: "Unconsolidatable", Message: "x", At: viewtest.Now})
	journal := m.Journal()
	journal.Take()
	<-m.Changed()
	view.SetTime(m, viewtest.Now.Add(10*time.Minute))
	select {
	case <-m.Changed():
		t.Error("a change within the time in which the event is repeated")
	default:
	}
	view.SetTime(m, viewtest.Now.Add(31*time.Minute))
	<-m.Changed()
	if changes := journal.Take(); len(changes.Set) != 1 || kept() {
		t.Errorf("%+v", changes)
	}
}
