package scenario

import (
	"fmt"
	"strings"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// declaration is a line that is being written.
type declaration struct{ parts []string }

func declare(words ...string) *declaration { return &declaration{parts: words} }

// amount adds name=value unless the value is what is understood anyway.
func (d *declaration) amount(name, value, usual string) {
	if value != usual {
		d.parts = append(d.parts, name+"="+quote(value))
	}
}

func (d *declaration) number(name string, n int64) {
	if n != 0 {
		d.parts = append(d.parts, fmt.Sprintf("%s=%d", name, n))
	}
}

func (d *declaration) word(word string, said bool) {
	if said {
		d.parts = append(d.parts, word)
	}
}

// group adds the items in brackets, if there are any.
func (d *declaration) group(name string, items []string) {
	if len(items) > 0 {
		d.parts = append(d.parts, name+"("+strings.Join(items, ", ")+")")
	}
}

// groups adds one group for each item.
func (d *declaration) groups(name string, items []string) {
	for _, item := range items {
		d.parts = append(d.parts, name+"("+item+")")
	}
}

func (d *declaration) sentence(name, text string) {
	if text != "" {
		d.parts = append(d.parts, name+"("+quote(text)+")")
	}
}

// width is where lines are continued on the next.
const width = 160

func (d *declaration) String() string {
	var b strings.Builder
	used := 0
	for i, part := range d.parts {
		switch {
		case i == 0:
		case used+len(part) > width && i > 2:
			b.WriteString("\n     ")
			used = 5
		default:
			b.WriteByte(' ')
		}
		b.WriteString(part)
		used += len(part) + 1
	}
	b.WriteByte('\n')
	return b.String()
}

// differing are the amounts that are not as in base.
func (w *writer) differing(r, base model.Resources) []string {
	var out []string
	for i, n := range r {
		if n != base[i] {
			name := resourceName(w.s.ResourceNames, i)
			out = append(out, name+"="+exactly(name, n))
		}
	}
	return out
}

// age says how long before now it was.
func (w *writer) age(t time.Time) string {
	if t.IsZero() {
		return none
	}
	return w.s.Now.Sub(t).String()
}

func mapped[T any](from []T, text func(T) string) []string {
	out := make([]string, len(from))
	for i, x := range from {
		out[i] = text(x)
	}
	return out
}
