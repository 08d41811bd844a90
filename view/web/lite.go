package web

import (
	_ "embed"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nodeless/nodeless/view"
)

//go:embed lite.html
var liteText string

//go:embed lite.css
var liteStyle []byte

//go:embed icon.svg
var icon []byte

var liteTemplate = template.Must(template.New("lite").Funcs(template.FuncMap{
	"text": view.Escape,
	"price": func(micros int64) string {
		if micros == 0 {
			return "-"
		}
		return view.PerHour(micros)
	},
	"share": func(used, of int64) string { return view.Percent(view.Share(used, of)) },
	"join":  func(words []string) string { return view.Escape(strings.Join(words, "; ")) },
}).Parse(liteText))

// litePage is how many rows a page without script has.
const litePage = 200

// liteData is what the page without script shows.
type liteData struct {
	Context, Prices        string
	At                     time.Time
	Now                    func(time.Time) string // an age
	Amount                 func(i int, v int64) string
	Resources              []string
	Totals                 view.Totals
	Hour, Month            string
	Filter, Sort           string
	Nodes                  view.Page[view.Line]
	First, Last, Of        int
	Previous, Next, Reload string // "" = there is none
	Pools                  []view.PoolRow
	Waiting                view.Page[view.PodRow]
}

// lite is the cluster as tables, for whoever has no script, a screen reader, or curl. Parameters: q filters nodes,
// sort orders them, from is the first row, reload loads the page again after so many seconds.
func (s *Server) lite(w http.ResponseWriter, r *http.Request) {
	now, p := s.o.Clock.Now(), r.URL.Query()
	from, err := strconv.Atoi(p.Get("from"))
	if from < 0 || err != nil {
		from = 0
	}
	if n, err := strconv.Atoi(p.Get("reload")); err == nil && n > 0 {
		w.Header().Set("Refresh", strconv.Itoa(n))
	}
	m := s.o.Model
	d := liteData{
		Context: s.o.Context, Prices: s.o.Prices, At: now.UTC(), Resources: m.Resources(), Totals: m.Totals(),
		Filter: p.Get("q"), Sort: p.Get("sort"),
		Now:    func(t time.Time) string { return view.Age(now, t) },
		Amount: func(i int, v int64) string { return view.Amount(m.Resources()[i], v) },
		Pools:  m.Pools(now, view.Query{}).Rows, Waiting: m.Waiting(view.Query{Window: view.Window{Height: litePage}}),
	}
	d.Nodes = m.Nodes(view.Query{
		Filter: d.Filter, Sort: view.ParseSort(d.Sort),
		Window: view.Window{Index: from, Top: from, Height: litePage},
	})
	d.Hour, d.Month = view.PerHour(d.Totals.Price), view.PerMonth(d.Totals.Price)
	d.Of = d.Nodes.Lines
	if len(d.Nodes.Rows) > 0 {
		d.First, d.Last = d.Nodes.Window.Top+1, d.Nodes.Window.Top+len(d.Nodes.Rows)
	}
	link := func(from int) string {
		q := url.Values{"from": {strconv.Itoa(from)}, "q": {d.Filter}, "sort": {d.Sort}}
		return "/lite?" + q.Encode()
	}
	if d.First > 1 {
		d.Previous = link(max(0, d.First-1-litePage))
	}
	if d.Last < d.Of {
		d.Next = link(d.Last)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err := liteTemplate.Execute(w, &d); err != nil {
		return // the reader went
	}
}

// file answers with a text of a type.
func file(kind string, text []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(text)
	}
}
