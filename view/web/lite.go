package web

import (
	"cmp"
	_ "embed"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nodeless/nodeless/view"
)

//go:embed lite.css
var liteStyle []byte

//go:embed icon.svg
var icon []byte

// litePage is how many rows a page without scripts has.
const litePage = 200

// lite serves the cluster as tables, for browsers without scripts, screen readers and curl. Parameters: q filters
// nodes, sort orders them, from is the first row, reload is after how many seconds to reload the page.
func (s *Server) lite(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if n, err := strconv.Atoi(q.Get("reload")); err == nil && n > 0 {
		w.Header().Set("Refresh", strconv.Itoa(n))
	}
	p := &litePageOf{
		markup: newMarkup(s.o.Context), Model: s.o.Model, now: s.o.Clock.Now(), resources: s.o.Model.Resources(),
		filter: q.Get("q"), sort: q.Get("sort"),
	}
	p.addTotals(s.o.Context, s.o.Prices != "")
	p.addPending()
	p.addPools()
	from, err := strconv.Atoi(q.Get("from"))
	if err != nil {
		from = 0
	}
	p.addNodes(max(from, 0))
	if s.o.Prices != "" {
		p.add("<p>Prices: %v.</p>\n", s.o.Prices)
	}
	p.send(w, http.StatusOK)
}

// litePageOf is the page without scripts, of a model at a time.
type litePageOf struct {
	*markup
	*view.Model
	now          time.Time
	resources    []string
	filter, sort string
}

func (p *litePageOf) addTotals(context string, priced bool) {
	t := p.Totals()
	p.add("<h1>%v</h1>\n<p>%v nodes, %v launching, %v not ready, %v being removed · %v pods running, %v pending", context,
		t.Nodes, t.OnTheirWay, max(0, t.NotReady-t.OnTheirWay), t.Going, t.Running, t.Waiting)
	if priced {
		p.add(" · <strong>%v an hour, %v a month</strong>", view.PerHour(t.Price), view.PerMonth(t.Price))
		if t.Unpriced > 0 {
			p.add(", %v without a price", t.Unpriced)
		}
	}
	p.add(`</p>
<p>As of %v UTC. <a href="./">Graphical page</a> · <a href="lite/decisions">Decisions</a> ·
<a href="lite/savings">Savings</a> · <a href="?reload=5">Reload every 5 s</a></p>
`, moment(p.now))
	for _, note := range t.Notes {
		p.add("<p role=\"note\">%v</p>\n", note)
	}
}

func (p *litePageOf) addPending() {
	p.add("<h2 id=\"pending\">Pending pods</h2>\n")
	waiting := p.Waiting(view.Query{Window: view.Window{Height: litePage}})
	if len(waiting.Rows) == 0 {
		p.add("<p>None.</p>\n")
		return
	}
	p.table("Pod", "Age", "Why")
	for _, pod := range waiting.Rows {
		p.row(pod.Key(), view.Age(p.now, pod.Created), pod.Why)
	}
	p.endTable()
	if waiting.Lines > len(waiting.Rows) {
		p.add("<p>and more: %v in all.</p>\n", waiting.Lines)
	}
}

func (p *litePageOf) addPools() {
	p.add("<h2 id=\"pools\">Node pools</h2>\n")
	p.table(slices.Concat([]string{"Pool", "Nodes"}, p.resources, []string{"$ an hour", "State"})...)
	pools := p.Pools(p.now, view.Query{}).Rows
	for i := range pools {
		pool := &pools[i]
		cells := []any{pool.Rows}
		for r, name := range p.resources {
			cells = append(cells, view.Amount(name, pool.Requests[r])+" of "+view.Amount(name, pool.Sums.Allocatable[r]))
		}
		state := pool.Problem
		switch {
		case pool.Name == "":
			state = ""
		case pool.Ready:
			state = "ready"
		}
		p.row(cmp.Or(pool.Name, "(no pool)"), append(cells, priceOf(pool.Price, pool.Unpriced == 0), state)...)
	}
	p.endTable()
}

func (p *litePageOf) addNodes(from int) {
	nodes := p.Nodes(view.Query{
		Filter: p.filter, Sort: view.ParseSort(p.sort), Window: view.Window{Index: from, Top: from, Height: litePage},
	})
	p.add(`<h2 id="nodes">Nodes</h2>
<form><label>Filter <input name="q" value="%v"></label>
<label>Order <input name="sort" value="%v" placeholder="age, price=dsc, cpu=dsc"></label> <button>Show</button></form>
`, p.filter, p.sort)
	first, last := 0, 0
	if len(nodes.Rows) > 0 {
		first, last = nodes.Window.Top+1, nodes.Window.Top+len(nodes.Rows)
	}
	p.add("<p>%v to %v of %v.", first, last, nodes.Lines)
	link := func(from int, text string) {
		q := url.Values{"from": {strconv.Itoa(from)}, "q": {p.filter}, "sort": {p.sort}}
		p.add(" <a href=\"%v\">%v</a>", "?"+q.Encode(), text)
	}
	if first > 1 {
		link(max(0, first-1-litePage), "Previous")
	}
	if last < nodes.Lines {
		link(last, "Next")
	}
	p.add("</p>\n")
	p.table(slices.Concat([]string{"Node", "Pool", "Type", "Capacity", "Zone"}, p.resources,
		[]string{"Pods", "$ an hour", "Age", "Status", "Why"})...)
	for i := range nodes.Rows {
		n := &nodes.Rows[i].Row
		cells := []any{n.Pool, n.Type, n.CapacityType, n.Zone}
		for r := range p.resources {
			cells = append(cells, view.Percent(view.Share(n.Requests[r], n.Allocatable[r])))
		}
		p.row(n.Name, append(cells, n.Pods, priceOf(n.Price, n.Priced()), view.Age(p.now, n.Created), n.Status,
			strings.Join(n.Why, "; "))...)
	}
	p.endTable()
}

// priceOf formats a price that is unknown if it is 0, unless that is what nothing costs.
func priceOf(micros int64, known bool) string {
	if micros == 0 && !known {
		return "unknown"
	}
	return view.PerHour(micros)
}

// file serves a text with a content type.
func file(kind string, text []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(text)
	}
}
