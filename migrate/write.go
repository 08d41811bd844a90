package migrate

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/internal/kit/printable"
)

// YAML writes the objects as YAML documents. A comment above each says what it was made from, and the fate of fields
// whose meaning has changed.
func (r *Result) YAML(w io.Writer) error {
	var b strings.Builder
	for _, o := range r.Objects {
		text, err := yaml.Marshal(o.Value)
		if err != nil {
			return fmt.Errorf("%s: %w", o.Title(), err)
		}
		b.WriteString("---\n")
		notes := r.notesOf(o)
		if len(notes) > 0 {
			fmt.Fprintf(&b, "# %s, from %s\n", printable.Text(o.Title()), printable.Text(o.from))
		}
		for _, n := range notes {
			if n.Fate != Mapped {
				fmt.Fprintf(&b, "# %s %s\n", n.Fate, n.text())
			}
		}
		b.WriteString(printable.Lines(string(text)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// notesOf returns the notes written above an object.
func (r *Result) notesOf(o *Object) []Note {
	var out []Note
	for _, n := range r.Notes {
		if n.target == o.Title() || n.Object == o.from && (n.target == "" || n.target == o.Value["kind"]) {
			out = append(out, n)
		}
	}
	return out
}

func (n *Note) text() string {
	out := cmp.Or(n.Field, n.To)
	if n.Field != "" && n.To != "" && n.To != n.Field {
		out += " → " + n.To
	}
	if out != "" && n.Why != "" {
		out += ": "
	}
	return printable.Text(cmp.Or(out+n.Why, "the object"))
}

// Report writes the fate of each object and field. It lists fields that mean the same only if all is set.
func (r *Result) Report(w io.Writer, all bool) error {
	var b strings.Builder
	var order []Note // the first of each object
	for _, n := range r.Notes {
		if !slices.ContainsFunc(order, func(o Note) bool { return o.Object == n.Object && o.File == n.File }) {
			order = append(order, n)
		}
	}
	for _, of := range order {
		fmt.Fprintf(&b, "%s (%s)\n", printable.Text(of.Object), of.place())
		mapped := 0
		for _, n := range r.Notes {
			if n.Object != of.Object || n.File != of.File {
				continue
			}
			if n.Fate == Mapped && !all {
				mapped++
				continue
			}
			fmt.Fprintf(&b, "  %-12s  %s\n", n.Fate, n.text())
		}
		if mapped > 0 {
			fmt.Fprintf(&b, "  %-12s  %d fields\n", Mapped, mapped)
		}
	}
	for _, n := range r.Skipped {
		fmt.Fprintf(&b, "%s (%s)\n  %-12s  %s\n", printable.Text(n.Object), n.place(), "skipped", printable.Text(n.Why))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
