package stories

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// varying are the parts of an answer that differ from run to run, and their placeholders in golden files.
var varying = []struct {
	part *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`\bip-\d+-\d+-\d+-\d+[.a-z0-9-]*`), "NODE"},
	{regexp.MustCompile(`\b(big|small|web|fast)-([0-9a-z]{6,10}-)?[0-9a-z]{5}\b`), "$1-POD"},
	{regexp.MustCompile(`\b([a-z][a-z-]*)-[0-9a-f]{10}\b`), "$1-CLAIM"},
	{regexp.MustCompile(`\b[0-9a-f]{12},`), "COMMAND,"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "TIME"},
	{regexp.MustCompile(`\b(for|after|in|about) (\d+[dhms])+\b`), "$1 AGE"},
	{regexp.MustCompile(`\b(\d+[dhms])+ (ago|old|after)\b`), "AGE $2"},
	{regexp.MustCompile(`are (\d+[dhms])+ old and may be gone before what their moves cost is saved again, in (\d+[dhms])+`), "are AGE old and may be gone before what their moves cost is saved again, in AGE"},
	{regexp.MustCompile(`us-west-2[a-d]\b`), "ZONE"},
	{regexp.MustCompile(`spot in (\S+) at \$[0-9.]+/h`), "spot in $1 at $$PRICE/h"}, // the market price changes
	{regexp.MustCompile(`-?\$\d+\.\d{4} so far`), "$$SUM so far"},
}

// scrubbed returns an answer without what differs from run to run: events, recent decisions, kube-scheduler's
// messages, the number of nodes.
func scrubbed(text string) string {
	var out []string
	dropped := false
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		switch {
		case strings.HasPrefix(line, " event ") || strings.HasPrefix(line, " decided ") ||
			strings.HasPrefix(line, " kube-scheduler ") || strings.HasPrefix(line, " existing nodes "):
			dropped = true
			continue
		case dropped && strings.HasPrefix(line, "  "): // continues a dropped line
			continue
		}
		dropped = false
		for _, v := range varying {
			line = v.part.ReplaceAllString(line, v.by)
		}
		out = append(out, strings.TrimRight(line, " "))
	}
	return strings.Join(out, "\n") + "\n"
}

// why runs why, and fails the test if there is no answer.
func (c *cluster) why(args ...string) string {
	c.t.Helper()
	out, err := c.run(append([]string{"why"}, args...)...)
	if err != nil {
		c.t.Fatalf("why %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// wantGolden compares an answer with testdata/why/NAME.txt.
func wantGolden(t *testing.T, name, answer string) {
	t.Helper()
	path, got := filepath.Join("testdata", "why", name+".txt"), scrubbed(answer)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; make it with: go test ./lab/stories -run TestWhy -update", err)
	}
	if got != string(want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// whyGolden runs why, and compares the answer with testdata/why/NAME.txt.
func (c *cluster) whyGolden(name string, question ...string) {
	c.t.Helper()
	wantGolden(c.t.(*testing.T), name, c.why(question...))
}

// answerOf is the part of the output of `why -o json` that the tests check.
type answerOf struct {
	Verdict, Summary string
	Reason           struct{ Pools []struct{ Pool, Rule string } }
	Change           struct {
		Rule, Object, To, Command string
		Patch                     struct {
			Anew  bool
			Patch []struct{ Op, Path string }
		}
	}
	Blockers []struct {
		Rule, Text, Clears string
		Group              []string
		ClearsAt           time.Time
	}
	Then string
}

func (c *cluster) whyJSON(args ...string) (a answerOf) {
	c.t.Helper()
	if err := json.Unmarshal([]byte(c.why(append(args, "-o", "json")...)), &a); err != nil {
		c.t.Fatal(err)
	}
	return a
}

// fact returns the text of an answer's line with the label.
func fact(answer, label string) string {
	for _, line := range strings.Split(answer, "\n") {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), label+" "); ok {
			return strings.TrimSpace(text)
		}
	}
	return ""
}
