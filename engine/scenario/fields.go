package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// field is one word or name=value of a declaration. It describes both directions: how the text is read, and how it is
// written.
type field struct {
	name  string
	word  *bool                   // for a word; then read and write are nil
	read  func(text string) error // of the value
	write func() string           // "" if the value goes without saying
}

// word is a word that may be present.
func word(name string, to *bool) field { return field{name: name, word: to} }

// value is name=value, read by parse and written by format unless it is the usual one.
func value[T comparable](name string, to *T, usual T, parse func(string) (T, error), format func(T) string) field {
	return field{
		name: name,
		read: func(text string) (err error) {
			*to, err = parse(text)
			return err
		},
		write: func() string {
			if *to == usual {
				return ""
			}
			return quote(format(*to))
		},
	}
}

func text(name string, to *string) field {
	same := func(s string) string { return s }
	return value(name, to, "", func(s string) (string, error) { return s, nil }, same)
}

func number[T int | int32 | int64](name string, to *T, usual T) field {
	return value(name, to, usual, whole[T], func(n T) string { return fmt.Sprint(n) })
}

func money(name string, to *model.Price) field { return value(name, to, 0, price, dollars) }

func duration(name string, to *time.Duration) field {
	return value(name, to, 0, func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, fmt.Errorf("not a duration")
		}
		return d, nil
	}, time.Duration.String)
}

// choice is one of several words; the first is the default.
func choice[T comparable](name string, to *T, words []string, values []T) field {
	return value(name, to, values[0], func(text string) (T, error) {
		i := slices.Index(words, text)
		if i < 0 {
			return values[0], fmt.Errorf("want one of %s", strings.Join(words, ", "))
		}
		return values[i], nil
	}, func(v T) string { return words[slices.Index(values, v)] })
}

// ago is a time, given as how long before now it was.
func ago(name string, now time.Time, to *time.Time, usual string) field {
	return field{
		name: name,
		read: func(text string) (err error) {
			*to, err = before(now, text)
			return err
		},
		write: func() string {
			if text := age(now, *to); text != usual {
				return text
			}
			return ""
		},
	}
}

// ahead is a time, given as how long after now it is.
func ahead(name string, now time.Time, to *time.Time) field {
	return field{
		name: name,
		read: func(text string) error {
			opposite, negative := strings.CutPrefix(text, "-")
			if !negative {
				opposite = "-" + text
			}
			at, err := before(now, opposite)
			if err != nil || text == none {
				return fmt.Errorf("not a duration")
			}
			*to = at
			return nil
		},
		write: func() string {
			if to.IsZero() {
				return ""
			}
			return to.Sub(now).String()
		},
	}
}

// none stands for the zero time.
const none = "none"

func before(now time.Time, text string) (time.Time, error) {
	if text == none {
		return time.Time{}, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d == -1<<63 {
		return time.Time{}, fmt.Errorf("not a duration")
	}
	return now.Add(-d), nil
}

func age(now, t time.Time) string {
	if t.IsZero() {
		return none
	}
	return now.Sub(t).String()
}

// fields reads the fields from the line: words from the i-th on, and values.
func (l *line) fields(i int, fields ...field) error {
	for _, f := range fields {
		if f.word != nil {
			*f.word = l.says(f.name, i)
		} else if text, ok := l.value(f.name); ok {
			if err := f.read(text); err != nil {
				return fmt.Errorf("%s=%s: %w", f.name, text, err)
			}
		}
	}
	return nil
}

// readItem reads one word or name=value, which must be one of the fields.
func readItem(item string, fields []field) error {
	name, text, _ := cut(item, "=")
	i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
	if i < 0 {
		return fmt.Errorf("%s: unknown word", item)
	}
	if fields[i].word != nil {
		*fields[i].word = true
		return nil
	}
	if err := fields[i].read(leaf(text)); err != nil {
		return fmt.Errorf("%s: %w", item, err)
	}
	return nil
}

// readGroup reads the items of a group.
func readGroup(l *line, name string, fields []field) error {
	for _, item := range lists(l.group(name)) {
		if err := readItem(item, fields); err != nil {
			return fmt.Errorf("%s(%s): %w", name, item, err)
		}
	}
	return nil
}

// declaration is a line that is being written.
type declaration struct{ parts []string }

func declare(words ...string) *declaration { return &declaration{parts: words} }

// fields writes the fields that differ from their defaults.
func (d *declaration) fields(fields ...field) *declaration {
	for _, f := range fields {
		if f.word != nil {
			d.word(f.name, *f.word)
		} else if text := f.write(); text != "" {
			d.parts = append(d.parts, f.name+"="+text)
		}
	}
	return d
}

func (d *declaration) word(word string, said bool) {
	if said {
		d.parts = append(d.parts, word)
	}
}

// group writes the items in brackets, if there are any.
func (d *declaration) group(name string, items []string) {
	if len(items) > 0 {
		d.parts = append(d.parts, name+"("+joined(items)+")")
	}
}

// groups writes one group for each item.
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

// width is the length after which a line continues on the next one.
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

func mapped[T any](from []T, text func(T) string) []string {
	out := make([]string, len(from))
	for i, x := range from {
		out[i] = text(x)
	}
	return out
}
