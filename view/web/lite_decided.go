package web

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"

	kept "github.com/nodeless/nodeless/explain/record"
	"github.com/nodeless/nodeless/view"
)

//go:embed lite_decided.html
var decidedText string

var decidedTemplate = template.Must(template.New("decided").Funcs(template.FuncMap{
	"text":  view.Escape,
	"money": money,
}).Parse(decidedText))

// decidedData is what the pages of decisions and of savings show without script.
type decidedData struct {
	Title, Context, Words, Problem string
	List                           *decisionList
	Ledger                         *kept.Ledger
}

// liteDecisions are the newest decisions as a table; q is words that are looked for.
func (s *Server) liteDecisions(w http.ResponseWriter, r *http.Request) {
	d := decidedData{Title: "Decisions", Words: r.URL.Query().Get("q")}
	var err error
	d.List, err = s.list(r.Context(), d.Words, litePage)
	s.writeDecided(w, &d, err)
}

// liteSavings is what was saved, as a table.
func (s *Server) liteSavings(w http.ResponseWriter, r *http.Request) {
	d := decidedData{Title: "Savings"}
	var err error
	d.Ledger, err = s.ledger(r.Context())
	s.writeDecided(w, &d, err)
}

func (s *Server) writeDecided(w http.ResponseWriter, d *decidedData, err error) {
	d.Context = s.o.Context
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err != nil {
		d.Problem = err.Error()
		status := http.StatusInternalServerError
		if f := (failure{}); errors.As(err, &f) {
			status = f.status
		}
		w.WriteHeader(status)
	}
	_ = decidedTemplate.Execute(w, d) // or the reader went
}

// money is a sum in dollars, such as −$0.0312.
func money(d float64) string {
	text := fmt.Sprintf("$%.4f", max(d, -d))
	if d < 0 && text != "$0.0000" {
		return "−" + text
	}
	return text
}
