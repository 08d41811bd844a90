package main

import (
	_ "embed"
	"regexp"
	"strings"

	"github.com/onsi/ginkgo/v2/types"
)

// expected.tsv has lines of: a regular expression, and why the specs whose texts match it may fail. The suite's profile
// lifts Fargate's restrictions, so such a spec may fail for another reason.
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

// byFargate matches the event of a pod that Fargate refuses even without its restrictions, not that of one that
// microVMs should run: a claim that is not bound, a size. The suite prints the events of a failed spec's namespace.
var byFargate = regexp.MustCompile(
	`Pod not supported on a microVM: .*?(OS windows|bound to invalid PV \S+ without CSI Driver)`)

// excuse returns why the failure of a spec is expected, or "" if it is not: expected.tsv says so, or one of the spec's
// pods is one that Fargate refuses.
func excuse(s types.SpecReport) string {
	if why := expectation(s.FullText()); why != "" {
		return why
	}
	if m := byFargate.FindStringSubmatch(s.Failure.Message + "\n" + s.CapturedGinkgoWriterOutput); m != nil {
		return "Fargate refuses a pod of it: " + m[1]
	}
	return ""
}
