package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nodeless/nodeless/engine/model"
)

// table is printed as Markdown with aligned columns: docs/benchmarks.md takes it as it is.
type table struct{ rows [][]string }

func newTable(head ...string) *table { return &table{rows: [][]string{head}} }

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) print(w io.Writer) error {
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
			if i < 2 {
				fmt.Fprintf(&out, "| %s%s ", cell, pad)
			} else {
				fmt.Fprintf(&out, "| %s%s ", pad, cell)
			}
		}
		out.WriteString("|\n")
		if n == 0 {
			for i := range r {
				if i < 2 {
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

func seconds(d time.Duration) string {
	switch s := d.Seconds(); {
	case s >= 10:
		return fmt.Sprintf("%.1f", s)
	case s >= 1:
		return fmt.Sprintf("%.2f", s)
	default:
		return fmt.Sprintf("%.4f", s)
	}
}

func mib(bytes uint64) string { return fmt.Sprintf("%.1f", float64(bytes)/(1<<20)) }

// above is how far the cost is above the proven minimum, for the same pods.
func above(o *outcome) string { return aboveBound(o.cost, o.bound) }

func aboveBound(cost, bound model.Price) string {
	if bound <= 0 {
		return ""
	}
	return fmt.Sprintf("%.2f %%", 100*(float64(cost)/float64(bound)-1))
}
