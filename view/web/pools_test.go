package web

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/internal/kit/clock"
	"github.com/nodeless/nodeless/lab/apisim"
	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/viewtest"
	"github.com/nodeless/nodeless/view/watcher"
)

func ask[T any](s *site, path string) (out T) {
	s.Helper()
	r, err := http.Get(s.http.URL + path)
	if err != nil {
		s.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		s.Fatalf("%s: status %d, %v: %s", path, r.StatusCode, err, text)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		s.Fatalf("%s: %v: %s", path, err, text)
	}
	return out
}

// It is noon: the budget for working hours is in force until five.
func TestPoolsAreToldWithTheirBudgetsAndConditions(t *testing.T) {
	s := open(t, 12, 1)
	p := viewtest.Pool("odd")
	p.Disruption, p.Problem = nil, ""
	p.Conditions = []view.Condition{{Type: "Ready", Status: "Unknown", Message: hostile}}
	s.model.SetPool(p)
	s.model.SetNode(&view.Node{Name: "alone"})
	pools := ask[[]poolItem](s, "/api/pools")
	if len(pools) != 4 {
		t.Fatalf("%d pools: %+v", len(pools), pools)
	}
	batch, general, odd, none := pools[0], pools[1], pools[2], pools[3]
	if batch.Nodes == 0 || batch.Nodes+general.Nodes != 12 || batch.Price == 0 || len(batch.Requests) != 2 ||
		batch.Conditions[0].Reason != "RegistrationFailed" || batch.Conditions[0].Since != viewtest.Now.Unix()-3600 {
		t.Errorf("batch: %+v", batch)
	}
	until := viewtest.Now.Unix() + 5*3600
	if b := general.Budgets; len(b) != 2 || !b[0].Active || b[0].Turns != 0 || !b[1].Active || b[1].Turns != until ||
		b[1].Seconds != 8*3600 || len(b[1].Spans) != 7 || b[1].Spans[0][1] != until || general.Limits[0].Limit != "1k" || general.Allowed["Empty"] == 0 {
		t.Errorf("general: %+v", general)
	}
	if odd.Nodes != 0 || len(odd.Budgets) != 0 || strings.ContainsRune(odd.Conditions[0].Message, '\u202e') {
		t.Errorf("odd: %+v", odd)
	}
	if none.Name != "" || none.Nodes != 1 || len(none.Limits) != 0 {
		t.Errorf("nodes of no pool: %+v", none)
	}
}

// The timeline shows what was in force: the last three days have four periods of working hours, of which the first is
// cut off and the last is not over.
func TestPeriodsOfBudgets(t *testing.T) {
	s := open(t, 12, 1)
	p := viewtest.Pool("odd")
	p.Disruption = func(now time.Time) view.Disruption {
		return view.Disruption{Window: &view.DisruptionWindow{
			Reasons: []string{"Underutilized"}, Spans: []view.Span{{From: now.Add(-time.Hour), To: now.Add(time.Hour)}},
		}}
	}
	s.model.SetPool(p)
	now := viewtest.Now
	periods := func(days int) []periodItem {
		from := now.Add(time.Duration(-days) * 24 * time.Hour)
		return ask[[]periodItem](s, fmt.Sprintf("/api/periods?from=%d&to=%d", from.UnixMilli(), now.UnixMilli()))
	}
	got := periods(3)
	if len(got) != 3 {
		t.Fatalf("%+v", got)
	}
	batch, odd := got[0], got[2]
	if batch.Pool != "batch" || batch.Nodes != "0" || !slices.Equal(batch.Reasons, []string{"Drifted"}) {
		t.Errorf("batch: %+v", batch)
	}
	var hours []int64
	for _, s := range batch.Spans {
		hours = append(hours, (s[1]-s[0])/3600)
	}
	if want := []int64{5, 8, 8, 3}; !slices.Equal(hours, want) { // from noon to noon
		t.Errorf("in force for %v hours, want %v", hours, want)
	}
	if odd.Pool != "odd" || odd.Nodes != "" || len(odd.Spans) != 1 || odd.Spans[0][1]-odd.Spans[0][0] != 3600 {
		t.Errorf("odd: %+v", odd)
	}
	if week := periods(400)[0].Spans; now.Unix()-week[0][0] > 7*24*3600 {
		t.Errorf("%d seconds back, more than a week", now.Unix()-week[0][0])
	}
	for _, wrong := range []string{"", "from=1", "from=1&to=x"} {
		r, err := http.Get(s.http.URL + "/api/periods?" + wrong)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		if r.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: status %d", wrong, r.StatusCode)
		}
	}
}

// A budget that is in force every quarter of an hour is told up to the end of the longest time that may be asked for.
func TestPeriodsOfABudgetThatTurnsOften(t *testing.T) {
	pool := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(`{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: often}, spec: {
  disruption: {budgets: [{nodes: "0", schedule: "*/15 * * * *", duration: 5m}]}}}`), pool); err != nil {
		t.Fatal(err)
	}
	server := apisim.New()
	server.Load(schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"}, pool)
	m, err := view.New([]string{"cpu"})
	if err != nil {
		t.Fatal(err)
	}
	o := watcher.Options{REST: server.Config("view", server), Context: "often", Model: m}
	feed, err := watcher.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Stop()
	for to := viewtest.Now; len(m.Pools(to, view.Query{}).Rows) == 0; {
		<-m.Changed()
	}
	to := viewtest.Now
	from := to.Add(-view.Calendar)
	r := httptest.NewRequest(http.MethodGet,
		fmt.Sprintf("/api/periods?from=%d&to=%d", from.UnixMilli(), to.UnixMilli()), nil)
	got, err := periods{m, clock.NewVirtual(to)}.answer(r)
	if err != nil {
		t.Fatal(err)
	}
	list, ok := got.([]periodItem)
	if !ok || len(list) != 1 {
		t.Fatalf("%+v", got)
	}
	spans := list[0].Spans
	if len(spans) != 7*24*4 || spans[0] != [2]int64{from.Unix(), from.Unix() + 300} ||
		to.Unix()-spans[len(spans)-1][1] != 600 {
		t.Errorf("%d spans, the last until %v of %v", len(spans), time.Unix(spans[len(spans)-1][1], 0).UTC(), to)
	}
}

func TestAFewLettersNamePods(t *testing.T) {
	s := open(t, 3, 30)
	got := ask[nameItems](s, "/api/names?q=web-1")
	if len(got.Pods) != mostNames || got.Pods[0] != (nameItem{"shop", "web-1-0", viewtest.NodeName(1)}) ||
		len(got.Namespaces) != 0 {
		t.Errorf("%+v", got)
	}
	if got = ask[nameItems](s, "/api/names?q=sho"); len(got.Namespaces) != 1 || got.Namespaces[0] != "shop" {
		t.Errorf("%+v", got)
	}
	if got = ask[nameItems](s, "/api/names?q="); got.Pods == nil || len(got.Pods) != 0 {
		t.Errorf("an empty text names %+v", got)
	}
}

func TestRolloutsOfATime(t *testing.T) {
	s := open(t, 1, 1)
	now := viewtest.Now
	s.model.SetPod(&view.Pod{UID: "new", Namespace: "shop", Name: "web-1", Created: now, Revision: unique.Make(view.Revision{
		Workload: view.Object{Kind: "Deployment", Namespace: "shop", Name: "we\u202eb"}, Hash: "a",
	})})
	asked := func(from, to int64) []rolloutItem {
		return ask[[]rolloutItem](s, fmt.Sprintf("/api/rollouts?from=%d&to=%d", from, to))
	}
	if got := asked(now.UnixMilli(), now.UnixMilli()+1); len(got) != 1 ||
		got[0] != (rolloutItem{"Deployment", "shop", `we\u202eb`, now.UnixMilli()}) {
		t.Errorf("%+v", got)
	}
	if got := asked(0, now.UnixMilli()); got == nil || len(got) != 0 {
		t.Errorf("before that: %+v", got)
	}
	r, err := http.Get(s.http.URL + "/api/rollouts?from=1")
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	if r.StatusCode != http.StatusBadRequest {
		t.Errorf("without an end: status %d", r.StatusCode)
	}
}
