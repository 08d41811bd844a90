package pipeline

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nodeless/nodeless/microvm/fargate"
)

// section is a section that remembers which of its keys were read: a key that nothing reads is a mistake.
type section struct {
	*fargate.LogSection
	asked map[string]bool
}

func newSection(s *fargate.LogSection) *section {
	return &section{s, map[string]bool{"name": true, "match": true, "alias": true, "log_level": true}}
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

// on returns the value of a switch.
func (s *section) on(key string, otherwise bool) (bool, error) {
	switch v := strings.ToLower(s.text(key, "")); v {
	case "":
		return otherwise, nil
	case "on", "true", "yes", "1":
		return true, nil
	case "off", "false", "no", "0":
		return false, nil
	}
	return false, s.wrong("%s is neither On nor Off", key)
}

// ons reads several switches, which hold their defaults before.
func (s *section) ons(switches map[string]*bool) error {
	for key, to := range switches {
		v, err := s.on(key, *to)
		if err != nil {
			return err
		}
		*to = v
	}
	return nil
}

// number returns a number from least to most.
func (s *section) number(key string, otherwise, least, most int) (int, error) {
	text := s.text(key, strconv.Itoa(otherwise))
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, s.wrong("%s is not a number from %d to %d", key, least, most)
	}
	return n, nil
}

// ignore accepts keys without any effect.
func (s *section) ignore(keys ...string) {
	for _, k := range keys {
		s.asked[k] = true
	}
}

// rest rejects the keys that nothing has read.
func (s *section) rest() error {
	for _, e := range s.Entries {
		if !s.asked[e.Key] && !strings.HasPrefix(e.Key, "net.") && !strings.HasPrefix(e.Key, "storage.") {
			return s.wrong("the key %s is not carried out here", e.Key)
		}
	}
	return nil
}

func (s *section) wrong(format string, args ...any) error {
	return fmt.Errorf("%s line %d: %s of %s", s.File, s.Line, fmt.Sprintf(format, args...), s.Value("name"))
}

// expression compiles a regular expression, with or without slashes around it.
func (s *section) expression(key, text string) (*regexp.Regexp, error) {
	if n := len(text); n > 1 && text[0] == '/' && text[n-1] == '/' {
		text = text[1 : n-1]
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, s.wrong("%s is not a regular expression of the RE2 kind (%v)", key, err)
	}
	return re, nil
}

// oneOf returns a value, in lower case, that must be one of several.
func (s *section) oneOf(key, otherwise string, allowed ...string) (string, error) {
	v := strings.ToLower(s.text(key, otherwise))
	if !slices.Contains(allowed, v) {
		return "", s.wrong("%s is none of %s", key, strings.Join(allowed, ", "))
	}
	return v, nil
}

// accessor finds a value in a record: "key", "$key" or "$key['inner']['innermost']".
type accessor []string

var inner = regexp.MustCompile(`^\[(?:'([^']*)'|"([^"]*)")\]`)

func newAccessor(text string) (accessor, error) {
	bare, ok := strings.CutPrefix(text, "$")
	if !ok {
		return accessor{text}, nil
	}
	first, rest, _ := strings.Cut(bare, "[")
	a := accessor{first}
	for rest = bare[len(first):]; rest != ""; {
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
