package awsapi

import (
	"cmp"
	"encoding/base64"
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

// page is the part of list that a paginated call answers, in the order of key, and the token of what follows. A token
// holds the last key of the page before, so that resources that come and go between pages neither repeat nor hide
// others. Without a size the page is as large as most allows.
func page[T any](list []T, size, most int, token string, key func(T) string) ([]T, string, error) {
	if size < 0 || size > most {
		return nil, "", failure(400, "InvalidParameterValue",
			fmt.Sprintf("Value ( %d ) for parameter maxResults is invalid. Expecting a value between 1 and %d.", size, most))
	}
	if size == 0 {
		size = most
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	if token != "" {
		after, err := untoken(token)
		if err != nil {
			return nil, "", err
		}
		i, _ := slices.BinarySearchFunc(list, after+"\x00", func(v T, k string) int { return cmp.Compare(key(v), k) })
		list = list[i:]
	}
	if len(list) <= size {
		return list, "", nil
	}
	list = list[:size]
	return list, base64.RawURLEncoding.EncodeToString([]byte(tokenMark + key(list[size-1]))), nil
}

// tokenMark begins every token.
const tokenMark = "after:"

func untoken(token string) (string, error) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	after, ok := strings.CutPrefix(string(b), tokenMark)
	if err != nil || !ok {
		return "", failure(400, "InvalidNextToken",
			"Unable to parse pagination token: use the nextToken of the previous answer unchanged")
	}
	return after, nil
}
