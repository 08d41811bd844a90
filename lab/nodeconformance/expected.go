package main

import (
	_ "embed"
	"regexp"
	"strings"

	"github.com/onsi/ginkgo/v2/types"
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

// byFargate matches the event of a pod that has what Fargate refuses, not that of one that microVMs should run: a claim
// that is not bound, a size. The suite prints the events of a failed spec's namespace.
var byFargate = regexp.MustCompile(`Pod not supported on (?:Fargate|a microVM): .*?` +
	`(HostNetwork|HostPID|HostIPC|OS windows|invalid SecurityContext fields: \S+|port contains HostIP or HostPort|` +
	`\S+ is of an unsupported volume Type|bound to invalid PV \S+ (?:without CSI Driver|with CSI Driver: \S+))`)

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
