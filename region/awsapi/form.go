package awsapi

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// form reads the parameters of the query protocols. Structures are names joined by dots, lists are numbered from 1:
// LaunchTemplateConfigs.1.Overrides.2.InstanceType. Reading never fails half way: the first bad value is kept in the
// shared error, which the caller asks for once at the end.
type form struct {
	values url.Values
	prefix string
	err    *error
}

func newForm(values url.Values) form { return form{values: values, err: new(error)} }

// at is the structure below name.
func (f form) at(name string) form {
	f.prefix += name + "."
	return f
}

func (f form) has(name string) bool {
	name = f.prefix + name
	for k := range f.values {
		if k == name || strings.HasPrefix(k, name+".") {
			return true
		}
	}
	return false
}

func (f form) str(name string) string { return f.values.Get(f.prefix + name) }

// bad notes that a parameter could not be read.
func (f form) bad(name, want string) {
	if *f.err == nil {
		*f.err = failure(400, "InvalidParameterValue",
			fmt.Sprintf("Value (%s) for parameter %s is invalid. Expected %s.", f.str(name), f.prefix+name, want))
	}
}

func (f form) integer(name string) int {
	s := f.str(name)
	if s == "" {
		return 0
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		f.bad(name, "an integer")
	}
	return n
}

func (f form) number(name string) float64 {
	s := f.str(name)
	if s == "" {
		return 0
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil {
		f.bad(name, "a number")
	}
	return n
}

func (f form) boolean(name string) bool {
	switch s := f.str(name); strings.ToLower(s) {
	case "", "false", "0":
		return false
	case "true", "1":
		return true
	}
	f.bad(name, "true or false")
	return false
}

// timestamp is the zero time if the parameter is absent.
func (f form) timestamp(name string) time.Time {
	s := f.str(name)
	if s == "" {
		return time.Time{}
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t
		}
	}
	f.bad(name, "a time such as 2026-01-31T15:04:05Z")
	return time.Time{}
}

// each is the structures of a list, in the order of their numbers; gaps are allowed, as in EC2. The member level that
// plain query services put in between (Tags.member.1.Key) is understood too.
func (f form) each(name string) []form {
	if list := f.numbered(name + "."); len(list) > 0 {
		return list
	}
	return f.numbered(name + ".member.")
}

func (f form) numbered(name string) []form {
	head := f.prefix + name
	var numbers []int
	for k := range f.values {
		rest, ok := strings.CutPrefix(k, head)
		if !ok {
			continue
		}
		digits, _, _ := strings.Cut(rest, ".")
		if n, err := strconv.Atoi(digits); err == nil && n >= 0 && strconv.Itoa(n) == digits {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	list := make([]form, len(numbers))
	for i, n := range numbers {
		list[i] = f
		list[i].prefix = head + strconv.Itoa(n) + "."
	}
	return list
}

// strs is the plain values of a list.
func (f form) strs(name string) []string {
	var list []string
	for _, item := range f.each(name) {
		list = append(list, item.values.Get(strings.TrimSuffix(item.prefix, ".")))
	}
	return list
}

// require notes the first parameter that is missing.
func (f form) require(names ...string) {
	for _, name := range names {
		if !f.has(name) && *f.err == nil {
			*f.err = failure(400, "MissingParameter", "The request must contain the parameter "+f.prefix+name)
		}
	}
}

// fail is the first problem met while reading.
func (f form) fail() error { return *f.err }
