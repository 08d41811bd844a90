package iam

import "strings"

// glob is a pattern: bytes, and the two wildcards below.
type glob []int16

const (
	anyText int16 = -1 // *
	anyByte int16 = -2 // ?
)

// literal returns the glob of a pattern without variables.
func literal(pattern string) glob {
	g := make(glob, 0, len(pattern))
	for _, b := range []byte(pattern) {
		switch b {
		case '*':
			g = append(g, anyText)
		case '?':
			g = append(g, anyByte)
		default:
			g = append(g, int16(b))
		}
	}
	return g
}

// exactly returns the glob that matches only text.
func exactly(text string) glob {
	g := make(glob, 0, len(text))
	for _, b := range []byte(text) {
		g = append(g, int16(b))
	}
	return g
}

// expand replaces policy variables such as ${aws:username} by the request's values, which match literally; ${*}, ${?}
// and ${$} are those characters. ok is false if the request lacks a variable that has no default: then the pattern
// matches nothing.
func expand(pattern string, c Context) (g glob, ok bool) {
	for {
		before, rest, found := strings.Cut(pattern, "${")
		name, after, closed := strings.Cut(rest, "}")
		if !found || !closed {
			return append(g, literal(pattern)...), true
		}
		g = append(g, literal(before)...)
		key, standby, defaulted := strings.Cut(name, ",")
		standby = strings.Trim(strings.TrimSpace(standby), "'")
		switch values := c[strings.ToLower(strings.TrimSpace(key))]; {
		case name == "*" || name == "?" || name == "$":
			g = append(g, exactly(name)...)
		case len(values) == 1:
			g = append(g, exactly(values[0])...)
		case defaulted:
			g = append(g, exactly(standby)...)
		default:
			return nil, false
		}
		pattern = after
	}
}

// matches reports whether a pattern matches all of s. Its running time is at most proportional to the product of both
// lengths.
func (g glob) matches(s string) bool {
	p, star, mark, i := 0, -1, 0, 0
	for i < len(s) {
		switch {
		case p < len(g) && g[p] == anyText:
			star, mark = p, i
			p++
		case p < len(g) && (g[p] == anyByte || g[p] == int16(s[i])):
			p++
			i++
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	for p < len(g) && g[p] == anyText {
		p++
	}
	return p == len(g)
}

// split splits a glob at its first n-1 colons, like strings.SplitN.
func (g glob) split(n int) []glob {
	var out []glob
	start := 0
	for i, b := range g {
		if b == ':' && len(out) < n-1 {
			out = append(out, g[start:i])
			start = i + 1
		}
	}
	return append(out, g[start:])
}

// text returns a pattern as text, with wildcards as themselves.
func (g glob) text() string {
	var b strings.Builder
	for _, x := range g {
		switch x {
		case anyText:
			b.WriteByte('*')
		case anyByte:
			b.WriteByte('?')
		default:
			b.WriteByte(byte(x))
		}
	}
	return b.String()
}
