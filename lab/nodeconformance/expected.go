package main

import (
	_ "embed"
	"regexp"
	"strings"
)

// expected.tsv has lines of: a regular expression, and why the specs whose texts match it fail.
//
//go:embed expected.tsv
var expected string

// expectation returns why a spec is expected to fail, or "" if it is not.
func expectation(text string) string {
	for line := range strings.Lines(expected) {
		pattern, why, ok := strings.Cut(strings.TrimRight(line, "\n"), "\t")
		if ok && regexp.MustCompile(pattern).MatchString(text) {
			return why
		}
	}
	return ""
}
