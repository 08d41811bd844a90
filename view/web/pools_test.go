package web

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/viewtest"
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

// It is noon: the budget of working hours is in force until five.
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
