package awsapi

import (
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
