// Package table prints measurements as Markdown with aligned columns, which documents take as it is.
package table

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Table is a head and rows of as many cells. The first columns are texts, the others figures.
type Table struct {
	texts int // columns that are aligned to the left
	rows  [][]string
}

// New returns a table of which the first columns hold texts.
func New(texts int, head ...string) *Table { return &Table{texts: texts, rows: [][]string{head}} }

// Add appends a row.
func (t *Table) Add(cells ...string) { t.rows = append(t.rows, cells) }

// Len is the number of rows, without the head.
func (t *Table) Len() int { return len(t.rows) - 1 }

// Print writes the table after an empty line.
func (t *Table) Print(w io.Writer) error {
	width := make([]int, len(t.rows[0]))
	for _, r := range t.rows {
		for i, cell := range r {
			width[i] = max(width[i], utf8.RuneCountInString(cell), 2)
		}
	}
	var out strings.Builder
	out.WriteByte('\n')
	for n, r := range t.rows {
		for i, cell := range r {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if i < t.texts {
				fmt.Fprintf(&out, "| %s%s ", cell, pad)
			} else {
				fmt.Fprintf(&out, "| %s%s ", pad, cell)
			}
		}
		out.WriteString("|\n")
		if n == 0 {
			for i := range r {
				if i < t.texts {
					fmt.Fprintf(&out, "|%s", strings.Repeat("-", width[i]+2))
				} else {
					fmt.Fprintf(&out, "|%s:", strings.Repeat("-", width[i]+1))
				}
			}
			out.WriteString("|\n")
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}
