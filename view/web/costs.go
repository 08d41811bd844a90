package web

import (
	"fmt"
	"net/http"

	"github.com/nodeless/nodeless/view"
)

// costList lists what namespaces or workloads cost, most expensive first.
type costList struct {
	Of    int        `json:"of"`    // number before the list was cut
	Price int64      `json:"price"` // of all, before the list was cut
	Costs []costItem `json:"costs"`
}

// costItem is one item of a costList. Prices are millionths of a dollar an hour, amounts are in the order of the
// resources.
type costItem struct {
	Kind      string  `json:"kind,omitempty"` // of a workload
	Namespace string  `json:"namespace"`      // "" = what no pod requests
	Name      string  `json:"name,omitempty"`
	Pods      int     `json:"pods"`
	Price     int64   `json:"price"`
	Unpriced  int     `json:"unpriced,omitempty"` // of its pods, those on nodes of unknown price
	Requests  []int64 `json:"requests"`
}

// mostCosts is the maximum number of items in an answer.
const mostCosts = 1000

// costs answers with what namespaces or workloads cost now.
type costs struct{ model *view.Model }

func (a costs) answer(r *http.Request) (any, error) {
	of, err := division(r)
	if err != nil {
		return nil, err
	}
	all := of.Costs(a.model)
	out := costList{Of: len(all), Costs: []costItem{}}
	for i := range all {
		out.Price += all[i].Price
	}
	for _, c := range all[:min(len(all), mostCosts)] {
		out.Costs = append(out.Costs, costItem{
			view.Escape(c.Of.Kind), view.Escape(c.Of.Namespace), view.Escape(c.Of.Name), c.Pods, c.Price, c.Unpriced,
			c.Requests[:len(a.model.Resources())],
		})
	}
	return out, nil
}

// division returns the division that a question names.
func division(r *http.Request) (view.Division, error) {
	by := r.URL.Query().Get("by")
	of, ok := view.DivideBy(by)
	if !ok {
		return nil, failure{http.StatusBadRequest, fmt.Errorf("by=%q: give namespace or workload", by)}
	}
	return of, nil
}

// partItem is what the pods of a namespace or workload take of one node; Pods are indices among the node's letters.
type partItem struct {
	Of       string  `json:"of"` // "" = what no pod requests
	Share    float64 `json:"share"`
	Requests []int64 `json:"requests"`
	Pods     []int   `json:"pods"`
}

// parts answers how each node is divided among namespaces or workloads.
type parts struct{ model *view.Model }

func (a parts) answer(r *http.Request) (any, error) {
	of, err := division(r)
	if err != nil {
		return nil, err
	}
	out := map[string][]partItem{}
	for name, all := range of.Parts(a.model) {
		items := make([]partItem, len(all))
		for i, p := range all {
			c := view.Cost{Of: p.Of}
			items[i] = partItem{view.Escape(c.Name()), p.Share, shown(&p.Requests, len(a.model.Resources())), p.Pods}
		}
		out[view.Escape(name)] = items
	}
	return out, nil
}
