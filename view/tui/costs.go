package tui

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/nodeless/nodeless/view"
)

// costColumns returns the columns of the costs of namespaces or workloads; priced is whether one is known.
func costColumns(s *scene, group string, priced bool) []column[view.Cost] {
	out := []column[view.Cost]{{
		title: strings.ToUpper(cmp.Or(group, view.GroupNamespace)), min: 20, fair: 32, max: 70, rank: 0, sort: view.SortName,
		text: func(s *scene, r *view.Cost) string { return cmp.Or(r.Name(), s.language.Say(unrequested)) },
	}}
	out = append(out, priceColumn(s, priced, 9, 1, view.SortPrice, func(s *scene, r *view.Cost) string {
		return s.price(r.Price, r.Price > 0 || r.Unpriced == 0)
	})...)
	out = append(out, column[view.Cost]{
		title: "PODS", min: 5, fair: 6, rank: 2, right: true, sort: view.SortPods,
		text: func(_ *scene, r *view.Cost) string { return strconv.Itoa(r.Pods) },
	})
	for i, name := range s.resources {
		out = append(out, column[view.Cost]{
			title: strings.ToUpper(name), min: 7, fair: 9, rank: 3 + i, right: true, sort: name,
			text: func(_ *scene, r *view.Cost) string { return view.Amount(name, r.Requests[i]) },
		})
	}
	return out
}

// unrequested stands for what no known pod requests.
const unrequested = "requested by no pod"

// division returns the division of a grouping of the screen Costs: by namespace unless by workload.
func division(group string) view.Division {
	of, _ := view.DivideBy(cmp.Or(group, view.GroupNamespace))
	return of
}

// aboutCost returns what a namespace or workload costs, and how costs are divided.
func (f *frame) aboutCost(key string) []string {
	var out []string
	for _, r := range division(f.a.state().group).Page(f.a.o.Model, view.Query{}).Rows {
		if r.Name() != key {
			continue
		}
		out = []string{key}
		switch {
		case f.s.unpriced:
		case r.Price == 0 && r.Unpriced > 0:
			out = append(out, "cost    "+unknown)
		default:
			out = append(out, "cost    "+view.PerHour(r.Price)+"/h, "+view.PerMonth(r.Price)+"/month")
		}
		out = append(out, fmt.Sprintf("pods    %d", r.Pods))
		for i, name := range f.s.resources {
			out = append(out, fmt.Sprintf("%-7s %s", name, view.Amount(name, r.Requests[i])))
		}
	}
	return append(out, "", "A node's price is divided equally among its resources, and each resource's part "+
		"among the pods by what they request of it.")
}
