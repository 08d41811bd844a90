package web

import (
	"fmt"
	"html"
	"net/http"
	"strings"

	"github.com/nodeless/nodeless/view"
)

// markup builds a page without scripts. Package html/template would do the same but double the controller's size: it
// calls methods by name, so that the linker keeps every method of every type, including those of the AWS SDK.
type markup struct{ strings.Builder }

// newMarkup begins a page.
func newMarkup(title string) *markup {
	m := &markup{}
	m.add(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>%v · Nodeless</title>
<link rel="icon" href="/icon.svg">
<link rel="stylesheet" href="/lite.css">
<main>
`, title)
	return m
}

// add appends HTML, in which each %v stands for a value that is escaped as text, also within quotes.
func (m *markup) add(markup string, values ...any) {
	for i, v := range values {
		values[i] = html.EscapeString(view.Escape(fmt.Sprint(v)))
	}
	fmt.Fprintf(m, markup, values...)
}

// table begins a table with the given column heads.
func (m *markup) table(heads ...string) {
	m.add("<table><thead><tr>")
	for _, head := range heads {
		m.add(`<th scope="col">%v`, head)
	}
	m.add("</tr></thead><tbody>\n")
}

// row appends a table row whose first cell is head.
func (m *markup) row(head string, cells ...any) {
	m.add(`<tr><th scope="row">%v`, head)
	for _, cell := range cells {
		m.add("<td>%v", cell)
	}
	m.add("</tr>\n")
}

// endTable ends a table.
func (m *markup) endTable() { m.add("</tbody></table>\n") }

// send ends the page and answers with it.
func (m *markup) send(w http.ResponseWriter, status int) {
	m.add("</main>\n</html>\n")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(m.String())) // fails if the reader has gone
}
