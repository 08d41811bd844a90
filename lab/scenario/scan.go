package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// line is a declaration: its words, values and groups, and the first error found in it.
type line struct {
	number int
	err    error
	words  []string
	values map[string]string
	groups map[string][]string // contents of each group, by name
	used   map[string]bool
}

// scan joins continued lines and splits each into its parts.
func scan(text string) ([]*line, error) {
	var out []*line
	var joined []string
	var numbers []int
	for i, raw := range strings.Split(text, "\n") {
		if comment := outside(raw, "#"); comment >= 0 {
			raw = raw[:comment]
		}
		if !closed(raw) {
			return nil, fmt.Errorf("line %d: %q: the quote is not closed", i+1, strings.TrimSpace(raw))
		}
		switch {
		case strings.TrimSpace(raw) == "":
		case (raw[0] == ' ' || raw[0] == '\t') && len(joined) > 0:
			joined[len(joined)-1] += " " + strings.TrimSpace(raw)
		default:
			joined, numbers = append(joined, strings.TrimSpace(raw)), append(numbers, i+1)
		}
	}
	for i, text := range joined {
		l, err := split(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", numbers[i], err)
		}
		l.number = numbers[i]
		out = append(out, l)
	}
	return out, nil
}

func split(text string) (*line, error) {
	l := &line{values: map[string]string{}, groups: map[string][]string{}, used: map[string]bool{}}
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		end := outside(text, " \t(")
		if end >= 0 && text[end] == '(' {
			closing := outside(text, ")")
			if closing < end {
				return nil, fmt.Errorf("%q: the bracket is not closed", text)
			}
			name := text[:end]
			l.groups[name] = append(l.groups[name], text[end+1:closing])
			text = text[closing+1:]
			continue
		}
		word := text
		if end >= 0 {
			word = text[:end]
		}
		text = text[len(word):]
		key, value, ok := cut(word, "=")
		if _, twice := l.values[key]; ok && twice {
			return nil, fmt.Errorf("%s: %s is given twice", l.kind(), key)
		}
		if ok {
			l.values[key] = value
		} else {
			l.words = append(l.words, word)
		}
	}
	return l, nil
}

func (l *line) kind() string {
	if len(l.words) == 0 {
		return ""
	}
	return l.words[0]
}

// name returns the word after the line's kind.
func (l *line) name() string { return leaf(l.words[1]) }

func (l *line) value(key string) (string, bool) {
	l.used[key] = true
	v, ok := l.values[key]
	return leaf(v), ok
}

func (l *line) group(name string) []string {
	l.used[name] = true
	return l.groups[name]
}

func (l *line) failf(format string, args ...any) {
	if l.err == nil {
		l.err = fmt.Errorf(format, args...)
	}
}

// in calls read, and prefixes the error that read records with the context.
func (l *line) in(context string, read func()) {
	if l.err != nil {
		return
	}
	if read(); l.err != nil {
		l.err = fmt.Errorf("%s: %w", context, l.err)
	}
}

// has reports whether a word follows the line's kind and name.
func (l *line) has(word string) bool {
	l.used[word] = true
	for _, w := range l.words[min(2, len(l.words)):] {
		if w == word {
			return true
		}
	}
	return false
}

// says reports whether the words from the i-th on include this one.
func (l *line) says(word string, i int) bool {
	l.used[word] = true
	return slices.Contains(l.words[min(i, len(l.words)):], word)
}

func whole[T int | int32 | int64](text string) (T, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || int64(T(n)) != n {
		return 0, fmt.Errorf("not a whole number in range")
	}
	return T(n), nil
}
