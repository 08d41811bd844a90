package pipeline

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nodeless/nodeless/microvm/fargate"
)

// section is a section that records which of its keys were read: a key that nothing reads is a mistake. The methods
// that read keys keep the first error, which rest returns.
type section struct {
	*fargate.LogSection
	asked map[string]bool
	err   error
}

func newSection(s *fargate.LogSection) *section {
	return &section{LogSection: s, asked: map[string]bool{"name": true, "match": true, "alias": true, "log_level": true}}
}

// fail keeps an error, unless there is one already.
func (s *section) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("%s line %d: %s: %s", s.File, s.Line, s.Value("name"), fmt.Sprintf(format, args...))
	}
}

// rest returns the first error. A key that nothing has read is an error.
func (s *section) rest() error {
	for _, e := range s.Entries {
		if !s.asked[e.Key] && !strings.HasPrefix(e.Key, "net.") && !strings.HasPrefix(e.Key, "storage.") {
			s.fail("the key %s is not supported", e.Key)
		}
	}
	return s.err
}

// all returns the values of a key that may occur several times.
func (s *section) all(key string) (values []string) {
	s.asked[key] = true
	for _, e := range s.Entries {
		if e.Key == key {
			values = append(values, e.Value)
		}
	}
	return values
}

// text returns the value of a key, or a default.
func (s *section) text(key, otherwise string) string {
	if all := s.all(key); len(all) > 0 {
		return all[0]
	}
	return otherwise
}

// list returns the comma-separated parts of a text that are not empty.
func list(text string) (parts []string) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// on returns the value of a boolean key, or a default.
func (s *section) on(key string, otherwise bool) bool {
	switch strings.ToLower(s.text(key, "")) {
	case "":
		return otherwise
	case "on", "true", "yes", "1":
		return true
	case "off", "false", "no", "0":
		return false
	}
	s.fail("%s is neither On nor Off", key)
	return false
}

// number returns a number from least to most.
func (s *section) number(key string, otherwise, least, most int) int {
	n, err := strconv.Atoi(s.text(key, strconv.Itoa(otherwise)))
	if err != nil || n < least || n > most {
		s.fail("%s is not a number from %d to %d", key, least, most)
	}
	return n
}

// ignore accepts keys without any effect.
func (s *section) ignore(keys ...string) {
	for _, k := range keys {
		s.asked[k] = true
	}
}

// expression compiles a regular expression, with or without slashes around it.
func (s *section) expression(key, text string) *regexp.Regexp {
	if n := len(text); n > 1 && text[0] == '/' && text[n-1] == '/' {
		text = text[1 : n-1]
	}
	re, err := regexp.Compile(text)
	if err != nil {
		s.fail("%s is not a regular expression of the RE2 kind (%v)", key, err)
	}
	return re
}

// oneOf returns a value, in lower case, that must be one of several.
func (s *section) oneOf(key, otherwise string, allowed ...string) string {
	v := strings.ToLower(s.text(key, otherwise))
	if !slices.Contains(allowed, v) {
		s.fail("%s is none of %s", key, strings.Join(allowed, ", "))
	}
	return v
}

// layout returns the Go layout of a format of strftime(3).
func (s *section) layout(name, format string) string {
	layout, err := goFormat(format)
	if err != nil {
		s.fail("%s: %v", name, err)
	}
	return layout
}

// accessor parses an accessor in the value of a key.
func (s *section) accessor(key, text string) accessor {
	a, err := newAccessor(text)
	if err != nil {
		s.fail("%s: %v", key, err)
	}
	return a
}

// accessor finds a value in a record: "key", "$key" or "$key['inner']['innermost']".
type accessor []string

var inner = regexp.MustCompile(`^\[(?:'([^']*)'|"([^"]*)")\]`)

func newAccessor(text string) (accessor, error) {
	bare, ok := strings.CutPrefix(text, "$")
	if !ok {
		return accessor{text}, nil
	}
	first, _, _ := strings.Cut(bare, "[")
	a := accessor{first}
	for rest := bare[len(first):]; rest != ""; {
		m := inner.FindStringSubmatch(rest)
		if m == nil {
			return nil, fmt.Errorf("%s is not of the form $key['inner']", text)
		}
		a = append(a, m[1]+m[2])
		rest = rest[len(m[0]):]
	}
	if first == "" {
		return nil, fmt.Errorf("%s names no key", text)
	}
	return a, nil
}

func (a accessor) find(fields map[string]any) (any, bool) {
	var v any = fields
	for _, key := range a {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = m[key]; !ok {
			return nil, false
		}
	}
	return v, true
}

// remove removes the value.
func (a accessor) remove(fields map[string]any) {
	for _, key := range a[:len(a)-1] {
		next, ok := fields[key].(map[string]any)
		if !ok {
			return
		}
		fields = next
	}
	delete(fields, a[len(a)-1])
}
