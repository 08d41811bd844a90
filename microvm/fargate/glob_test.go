package fargate

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// byRegexp matches a pattern as a regular expression, independently of glob.
func byRegexp(pattern, text string) bool {
	quoted := regexp.QuoteMeta(pattern)
	quoted = strings.ReplaceAll(quoted, `\*`, `.*`)
	quoted = strings.ReplaceAll(quoted, `\?`, `.`)
	return regexp.MustCompile(`(?s)\A` + quoted + `\z`).MatchString(text)
}

func FuzzGlob(f *testing.F) {
	for _, seed := range [][2]string{
		{"", ""},
		{"*", ""},
		{"?", ""},
		{"study-*", "study-1"},
		{"*-prod-*", "a-prod-prod-b"},
		{"a?c", "abc"},
		{"*a*a*a*b", "aaaaaaaaaaaaaaaaaaaa"},
		{"**", "x"},
		{"?*", ""},
		{"a.c", "abc"},
		{"[a]", "a"},
		{"ä?", "äö"},
		{"*\n", "\n"},
		{`\*`, `\x`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 100 || len(text) > 1000 || !utf8.ValidString(pattern) || !utf8.ValidString(text) {
			t.Skip("names in Kubernetes are shorter, and text")
		}
		if got, want := glob(pattern, text), byRegexp(pattern, text); got != want {
			t.Errorf("glob(%q, %q) = %v, the other matcher says %v", pattern, text, got, want)
		}
	})
}
