package web

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"unique"

	"github.com/nodeless/nodeless/view"
	"github.com/nodeless/nodeless/view/viewtest"
)

func TestCostsAreDividedByNamespaceOrWorkload(t *testing.T) {
	s := open(t, 3, 4)
	total := s.model.Totals().Price
	s.model.SetPod(&view.Pod{
		UID: "new", Namespace: "lab", Name: "web-1", Node: viewtest.NodeName(0), Requests: view.Amounts{100, viewtest.Gi},
		Workload: unique.Make(view.Object{Kind: "Deployment", Namespace: "lab", Name: "we\u202eb"}),
	})
	got := ask[costList](s, "/api/costs?by=namespace")
	var sum int64
	for _, c := range got.Costs {
		sum += c.Price
	}
	if len(got.Costs) != 3 || got.Of != 3 || sum < total-3 || sum > total+3 {
		t.Errorf("%+v; want two namespaces and the rest, %d together", got, total)
	}
	if c := got.Costs[2]; c.Namespace != "lab" || c.Pods != 1 || c.Requests[0] != 100 || c.Price <= 0 {
		t.Errorf("the cheapest is %+v", c)
	}
	last := ask[costList](s, "/api/costs?by=workload").Costs[2]
	if last.Kind != "Deployment" || last.Namespace != "lab" || last.Name != `we\u202eb` {
		t.Errorf("the cheapest workload is %+v", last)
	}
	r, err := http.Get(s.http.URL + "/api/costs?by=colour")
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	if r.StatusCode != http.StatusBadRequest {
		t.Errorf("by something else: status %d", r.StatusCode)
	}
	node := ask[map[string][]partItem](s, "/api/parts?by=namespace")[viewtest.NodeName(0)]
	if len(node) != 3 || node[0].Of != "lab" || !slices.Equal(node[1].Pods, []int{1, 2, 3, 4}) || node[2].Of != "" {
		t.Errorf("a node is divided into %+v", node)
	}
}

// What is not known is not called free.
func TestUnknownPricesAreNotZero(t *testing.T) {
	s := open(t, 2, 1)
	s.o.Prices = "list prices of a day"
	s.model.SetNode(&view.Node{Name: "metal-1", Created: viewtest.Now})
	s.model.SetPod(&view.Pod{
		UID: "on-metal", Namespace: "metal", Name: "db", Node: "metal-1", Requests: view.Amounts{100, viewtest.Gi},
	})
	costs := ask[costList](s, "/api/costs?by=namespace").Costs
	if i := slices.IndexFunc(costs, func(c costItem) bool { return c.Namespace == "metal" }); i < 0 ||
		costs[i].Unpriced != 1 || costs[i].Price != 0 {
		t.Errorf("%+v; want one pod of unknown cost", costs)
	}
	_, text := s.get("/lite")
	if !strings.Contains(text, "a month</strong>, 1 without a price") || !strings.Contains(text, "<td>unknown<td>") ||
		strings.Contains(text, "<td>-<td>") {
		t.Errorf("the page without scripts says\n%s", text)
	}
}

// Of more namespaces than are listed, the sum still counts all.
func TestTheSumOfCostsCountsWhatIsNotListed(t *testing.T) {
	s := open(t, 3, 4)
	for i := range mostCosts { // and the shop, and what no pod requests
		s.model.SetPod(&view.Pod{
			UID: fmt.Sprint("uid-of-", i), Namespace: fmt.Sprint("lab-", i), Name: "web", Node: viewtest.NodeName(i % 3),
			Requests: view.Amounts{100, viewtest.Gi}, Phase: view.Running,
		})
	}
	got, total := ask[costList](s, "/api/costs?by=workload"), s.model.Totals().Price
	var listed int64
	for _, c := range got.Costs {
		listed += c.Price
	}
	if len(got.Costs) != mostCosts || got.Of <= mostCosts || listed >= got.Price ||
		got.Price < total-int64(got.Of) || got.Price > total+int64(got.Of) { // each is rounded
		t.Errorf("%d of %d listed, %d of %d; all nodes cost %d", len(got.Costs), got.Of, listed, got.Price, total)
	}
}
