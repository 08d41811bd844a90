package web

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	kept "github.com/nodeless/nodeless/explain/record"
)

// liteDecisions serves the newest decisions as a table; q holds the words to find.
func (s *Server) liteDecisions(w http.ResponseWriter, r *http.Request) {
	words := r.URL.Query().Get("q")
	list, err := s.list(r.Context(), words, litePage)
	s.writeDecided(w, "Decisions", `<a href="savings">Savings</a>`, err, func(m *markup) {
		m.add("<form><label>Find <input name=\"q\" value=\"%v\"></label> <button>Show</button></form>\n", words)
		for _, note := range list.Damaged {
			m.add("<p role=\"note\">%v</p>\n", note)
		}
		shown := "None"
		if len(list.Items) > 0 {
			shown = fmt.Sprintf("The newest %d of %d", len(list.Items), list.Of)
		}
		m.add("<p>%v, of %v recorded.</p>\n", shown, list.Kept)
		m.table("When", "Decision", "Reason", "Pods", "What", "Outcome")
		for i := range list.Items {
			d := &list.Items[i]
			m.row(moment(d.Time), d.Kind, d.Method+d.Rule, d.Count, d.Why, d.Became)
		}
		m.endTable()
	})
}

// liteSavings serves the savings as a table.
func (s *Server) liteSavings(w http.ResponseWriter, r *http.Request) {
	ledger, days, err := s.ledger(r.Context())
	s.writeDecided(w, "Savings", `<a href="decisions">Decisions</a>`, err, func(m *markup) {
		m.add("<p><strong>%v</strong> saved since %v UTC; now %v an hour.", money(ledger.Dollars), moment(ledger.Since),
			money(ledger.DollarsPerHour))
		if ledger.Unpriced > 0 {
			m.add(" Left out, because a price is unknown: %v.", ledger.Unpriced)
		}
		m.add("</p>\n<p>%v</p>\n", ledger.Counterfactual)
		m.table("Day, UTC", "Saved")
		for _, d := range days {
			m.row(d.Date, money(d.Dollars))
		}
		m.endTable()
		for _, by := range []struct{ name, title string }{
			{kept.ByPool, "Pool"}, {kept.ByNamespace, "Namespace"}, {kept.ByWorkload, "Workload"},
		} {
			m.table(by.title, "Saved", "Now, an hour")
			all := kept.SavedBy(ledger.Savings, by.name)
			for _, sum := range all[:min(len(all), litePage)] {
				m.row(sum.String(), money(sum.Dollars), money(sum.DollarsPerHour))
			}
			m.endTable()
		}
		m.add("<p>%v</p>\n", kept.Division)
		m.table("When", "Reason", "State", "Saved", "Now, an hour", "Removed nodes", "Replacements", "Launched since", "What")
		for i := range min(len(ledger.Savings), litePage) {
			x := &ledger.Savings[i]
			m.row(moment(x.Time), x.Method, x.State, money(x.Dollars), money(x.DollarsPerHour), money(x.RemovedDollars),
				money(x.ReplacementDollars), money(x.LaunchedDollars), x.What)
		}
		m.endTable()
	})
}

// writeDecided writes a page with a link to the one beside it, or the error that kept it from being read.
func (s *Server) writeDecided(w http.ResponseWriter, title, beside string, err error, body func(*markup)) {
	m, status := newMarkup(title+" · "+s.o.Context), http.StatusOK
	m.add("<h1>%v · %v</h1>\n<p><a href=\"../lite\">Nodes and pods</a> · "+beside+"</p>\n", title, s.o.Context)
	if err == nil {
		body(m)
	} else {
		m.add("<p role=\"note\">%v</p>\n", err)
		status = statusOf(err)
	}
	m.send(w, status)
}

func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// money formats an amount in dollars, such as −$0.0312.
func money(d float64) string { return strings.Replace(kept.Money(d), "-", "−", 1) }
