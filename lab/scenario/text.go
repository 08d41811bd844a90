package scenario

import (
	"strconv"
	"strings"
)

// outside returns the index of the first of chars outside quotes, or -1.
func outside(text, chars string) int {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch {
		case quoted && text[i] == '\\':
			i++
		case text[i] == '"':
			quoted = !quoted
		case !quoted && strings.IndexByte(chars, text[i]) >= 0:
			return i
		}
	}
	return -1
}

// closed reports whether every quote is closed.
func closed(text string) bool { return outside(text+"\x00", "\x00") >= 0 }

// cut is strings.Cut at the first of chars outside quotes; it trims the parts.
func cut(text, chars string) (before, after string, found bool) {
	i := outside(text, chars)
	if i < 0 {
		return strings.TrimSpace(text), "", false
	}
	return strings.TrimSpace(text[:i]), strings.TrimSpace(text[i+1:]), true
}

// parts splits the text at each of chars outside quotes.
func parts(text, chars string) []string {
	var out []string
	for {
		part, rest, more := cut(text, chars)
		out = append(out, part)
		if !more {
			return out
		}
		text = rest
	}
}

// list returns the nonempty items between commas.
func list(content string) []string { return nonEmpty(parts(content, ",")) }

func lists(contents []string) []string { return list(strings.Join(contents, ",")) }

func fields(text string) []string { return nonEmpty(parts(text, " \t")) }

func nonEmpty(items []string) []string {
	var out []string
	for _, item := range items {
		if item != "" {
			out = append(out, item)
		}
	}
	return out
}

// leaf returns a name, key or value, without quotes if it is quoted.
func leaf(text string) string {
	if strings.HasPrefix(text, `"`) {
		if plain, err := strconv.Unquote(text); err == nil {
			return plain
		}
	}
	return text
}

func leaves(items []string) []string {
	for i := range items {
		items[i] = leaf(items[i])
	}
	return items
}

// quote formats a text so that leaf reads it back: it quotes texts that are empty or contain special characters.
func quote(text string) string {
	for _, c := range text {
		if !plain(c) && c != '/' {
			return strconv.Quote(text)
		}
	}
	if text == "" || text == "-" {
		return strconv.Quote(text)
	}
	return text
}

func plain(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
}
