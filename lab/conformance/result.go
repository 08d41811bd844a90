package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2/types"
)

// result is the result of a spec.
type result struct {
	Spec    string        `json:"spec"`
	Passed  bool          `json:"passed"`
	Took    time.Duration `json:"tookNanoseconds"`
	Failure string        `json:"failure,omitempty"` // what was expected, and where
	Logs    string        `json:"logs,omitempty"`    // folder
}

// judge reads the report of a run of one spec. The spec has passed if it ran and nothing around it failed.
func (r *result) judge(path string) {
	reports, err := readReport(path)
	if err != nil {
		r.Failure = err.Error()
		return
	}
	ran := false
	for _, s := range reports {
		if s.Failed() && r.Failure == "" {
			r.Failure = failure(s)
		}
		if s.LeafNodeType == types.NodeTypeIt && s.State == types.SpecStatePassed {
			ran = true
			r.Took = s.RunTime
		} else if s.LeafNodeType == types.NodeTypeIt && s.State != types.SpecStateSkipped {
			r.Took = s.RunTime
		}
	}
	if !ran && r.Failure == "" {
		r.Failure = "the suite did not run it"
	}
	r.Passed = r.Failure == ""
}

func failure(s types.SpecReport) string {
	at := s.Failure.FailureNodeLocation
	if s.Failure.Location.FileName != "" {
		at = s.Failure.Location
	}
	return fmt.Sprintf("%s (%s:%d)", strings.TrimSpace(s.Failure.Message), filepath.Base(at.FileName), at.LineNumber)
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// folder returns the folder name for a spec's logs.
func folder(text string) string {
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(text), "-"), "-")
	return name[:min(len(name), 120)]
}

// short returns a failure on one line.
func short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 300 {
		return string(r[:300]) + "…"
	}
	return s
}
