package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodeless/nodeless/engine/model"
)

// field is one word or name=value of a declaration.
type field struct {
	name string
	word *bool                   // for a word; then read is nil
	read func(text string) error // of the value
}

// word is an optional word.
func word(name string, to *bool) field { return field{name: name, word: to} }

// value is name=value, read by parse.
func value[T any](name string, to *T, parse func(string) (T, error)) field {
	return field{name: name, read: func(text string) (err error) {
		*to, err = parse(text)
		return err
	}}
}

func text(name string, to *string) field {
	return value(name, to, func(s string) (string, error) { return s, nil })
}

func number[T int | int32 | int64](name string, to *T) field { return value(name, to, whole[T]) }

func money(name string, to *model.Price) field { return value(name, to, price) }

func duration(name string, to *time.Duration) field {
	return value(name, to, func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, fmt.Errorf("not a duration")
		}
		return d, nil
	})
}

// choice is one of several words.
func choice[T any](name string, to *T, words []string, values []T) field {
	return value(name, to, func(text string) (T, error) {
		i := slices.Index(words, text)
		if i < 0 {
			return values[0], fmt.Errorf("want one of %s", strings.Join(words, ", "))
		}
		return values[i], nil
	})
}

// ago is a time, given as a duration before now.
func ago(name string, now time.Time, to *time.Time) field {
	return value(name, to, func(text string) (time.Time, error) { return before(now, text) })
}

// ahead is a time, given as a duration after now.
func ahead(name string, now time.Time, to *time.Time) field {
	return value(name, to, func(text string) (time.Time, error) {
		opposite, negative := strings.CutPrefix(text, "-")
		if !negative {
			opposite = "-" + text
		}
		at, err := before(now, opposite)
		if text == none {
			err = fmt.Errorf("not a duration")
		}
		return at, err
	})
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

// fields reads the fields from the line: words from the i-th on, and values.
func (l *line) fields(i int, fields ...field) {
	for _, f := range fields {
		if f.word != nil {
			*f.word = l.says(f.name, i)
		} else if text, ok := l.value(f.name); ok {
			if err := f.read(text); err != nil {
				l.failf("%s=%s: %w", f.name, text, err)
			}
		}
	}
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

// fieldGroup reads a group of fields.
func (l *line) fieldGroup(name string, fields ...field) {
	for _, item := range lists(l.group(name)) {
		if err := readItem(item, fields); err != nil {
			l.failf("%s(%s): %w", name, item, err)
		}
	}
}
