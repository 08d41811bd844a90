package awsapi

import (
	"fmt"
	"slices"
	"strings"
)

// filter is one Filter.N of a Describe call: an attribute and the patterns of which one must match.
type filter struct {
	name     string
	patterns []string
}

func (c *call) filters() []filter {
	var list []filter
	for _, f := range c.form.each("Filter") {
		f.require("Name")
		list = append(list, filter{name: f.str("Name"), patterns: f.strs("Value")})
	}
	return list
}

// attributes gives the values of a resource's filterable attributes. An attribute that is listed with no value is a
// valid filter that the resource does not match.
type attributes map[string][]string

// withTags adds tag:KEY, tag-key and tag-value.
func (a attributes) withTags(tags map[string]string) attributes {
	a["tag-key"], a["tag-value"] = nil, nil
	for k, v := range tags {
		a["tag:"+k] = []string{v}
		a["tag-key"] = append(a["tag-key"], k)
		a["tag-value"] = append(a["tag-value"], v)
	}
	return a
}

// selected keeps the resources that match every filter. A filter that the resource kind does not have is an error,
// as in EC2, so that a misspelt one does not go unnoticed.
func selected[T any](list []T, filters []filter, attrs func(T) attributes) ([]T, error) {
	if len(filters) == 0 {
		return list, nil
	}
	var zero T
	known := attrs(zero)
	for _, f := range filters {
		if _, ok := known[f.name]; !ok && !strings.HasPrefix(f.name, "tag:") {
			return nil, failure(400, "InvalidParameterValue", fmt.Sprintf("The filter '%s' is invalid", f.name))
		}
	}
	var out []T
	for _, v := range list {
		a := attrs(v)
		if !slices.ContainsFunc(filters, func(f filter) bool { return !f.matches(a[f.name]) }) {
			out = append(out, v)
		}
	}
	return out, nil
}

func (f filter) matches(values []string) bool {
	return slices.ContainsFunc(f.patterns, func(p string) bool {
		return slices.ContainsFunc(values, func(v string) bool { return like(p, v) })
	})
}

// like matches EC2's wildcards: * is any text, ? any one character, \ takes the next literally. It takes time in
// proportion to the product of both lengths at most.
func like(pattern, s string) bool {
	p, star, mark, i := 0, -1, 0, 0
	for i < len(s) {
		width, ok := 1, false
		if p < len(pattern) {
			switch {
			case pattern[p] == '*':
				star, mark = p, i
				p++
				continue
			case pattern[p] == '?':
				ok = true
			case pattern[p] == '\\' && p+1 < len(pattern):
				width, ok = 2, pattern[p+1] == s[i]
			default:
				ok = pattern[p] == s[i]
			}
		}
		switch {
		case ok:
			p += width
			i++
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// boolText is a boolean as filters compare it.
func boolText(b bool) []string {
	if b {
		return []string{"true"}
	}
	return []string{"false"}
}

// named keeps the resources whose id is asked for; with no ids all. An id that no resource has is an error with the
// code of its kind and a message made from format and the id.
func named[T any](list []T, ids []string, id func(T) string, code, format string) ([]T, error) {
	if len(ids) == 0 {
		return list, nil
	}
	byID := make(map[string]T, len(list))
	for _, v := range list {
		byID[id(v)] = v
	}
	var out []T
	seen := map[string]bool{}
	for _, want := range ids {
		v, ok := byID[want]
		if !ok {
			return nil, failure(400, code, fmt.Sprintf(format, want))
		}
		if !seen[want] {
			seen[want] = true
			out = append(out, v)
		}
	}
	return out, nil
}
