// Package table prints measurements as Markdown tables with aligned columns, ready to paste into documents.
package table

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Table is a header and rows with the same number of cells. The first columns hold text, the others figures.
type Table struct {
	texts int // the number of left-aligned columns
	rows  [][]string
}

// New returns a table whose first texts columns hold text.
func New(texts int, head ...string) *Table { return &Table{texts: texts, rows: [][]string{head}} }

// Add appends a row.
func (t *Table) Add(cells ...string) { t.rows = append(t.rows, cells) }

// Len returns the number of rows, without the header.
func (t *Table) Len() int { return len(t.rows) - 1 }

// Print writes an empty line and the table.
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
