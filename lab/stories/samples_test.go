package stories

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sample is the content of a ```console block of a document: a command after "$ ", and below it the command's output.
type sample struct {
	command    string
	want       []string
	start, end int // of want in the document, in bytes
}

// samples returns the document's samples, in order.
func samples(document string) []sample {
	var found []sample
	inside, at := false, 0
	for line := range strings.Lines(document) {
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch n := len(found); {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console\n"
		case inside && isCommand:
			found = append(found, sample{command: strings.TrimSpace(command), start: at + len(line), end: at + len(line)})
		case inside && n > 0:
			found[n-1].want, found[n-1].end = append(found[n-1].want, strings.TrimSuffix(line, "\n")), at+len(line)
		}
		at += len(line)
	}
	return found
}

// outputRecorder records the output of the samples' commands while the document's script runs.
type outputRecorder struct {
	dir      string
	samples  []sample
	recorded map[int]bool
}

// record makes the script's line also write its output to a file, if it is the command of a sample. If a command runs
// twice, its first sample belongs to its first run.
func (r *outputRecorder) record(line string) string {
	command := strings.TrimSpace(line)
	for i, s := range r.samples {
		if s.command == command && !r.recorded[i] {
			r.recorded[i] = true
			return r.tee(command, i)
		}
	}
	return line
}

func (r *outputRecorder) tee(command string, i int) string {
	return fmt.Sprintf("%s | tee %s\n", command, r.file(i))
}

func (r *outputRecorder) file(i int) string { return filepath.Join(r.dir, fmt.Sprintf("sample-%d", i)) }

// compare compares each sample with its command's output; with -update it rewrites those that differ.
func (r *outputRecorder) compare(t *testing.T, path string) {
	t.Helper()
	for i, s := range slices.Backward(r.samples) { // backward, because a rewritten sample moves those after it
		if strings.HasPrefix(s.command, "make ") {
			continue // TestDemoUntilCtrlC checks the output of make up
		}
		out, err := os.ReadFile(r.file(i))
		if err != nil {
			t.Errorf("%s: the sample of %q is of a command that no block runs: %v", path, s.command, err)
			continue
		}
		compareSample(t, path, s, string(out))
	}
}

func compareSample(t *testing.T, path string, s sample, out string) {
	t.Helper()
	got := strings.Split(strings.TrimRight(out, "\n"), "\n")
	if sameShape(s.want, got) {
		return
	}
	if !*update {
		t.Errorf("%s: %q does not print its sample; -update rewrites it. It prints\n%s\nthe sample is\n%s",
			path, s.command, out, strings.Join(s.want, "\n"))
		return
	}
	document, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(document[:s.start]) + strings.Join(append(got, ""), "\n") + string(document[s.end:])
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// sameShape reports whether the output matches the sample, ignoring what differs from run to run. A line "…" of the
// sample stands for any lines, "…" in a line for any text.
func sameShape(want, got []string) bool {
	if len(want) == 0 {
		return len(got) == 0
	}
	if want[0] == "…" {
		for skip := range len(got) + 1 {
			if sameShape(want[1:], got[skip:]) {
				return true
			}
		}
		return false
	}
	return len(got) > 0 && sameLine(want[0], got[0]) && sameShape(want[1:], got[1:])
}

func sameLine(want, got string) bool {
	parts := strings.Split(shape(want), "…")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(shape(got))
}

// varies is what differs from run to run: instance types, hashed names, durations, numbers, the width of columns and
// the length of bars.
var varies = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\b[a-z]+\d[a-z]*\.(\d*x?large|medium|metal)\b`), "TYPE"},
	{regexp.MustCompile(`\bus-west-2[a-d]\b`), "ZONE"},
	{regexp.MustCompile(`-[0-9a-f]{8,10}(-[a-z0-9]{5})?\b|\b[0-9a-f]{10}\b`), "-NAME"},
	{regexp.MustCompile(`\b(\d+(\.\d+)?(d|h|m|s|ms))+\b`), "0"},
	{regexp.MustCompile(`\d[\d,]*(\.\d+)?(Mi|Gi|Ki)?`), "0"},
	{regexp.MustCompile(`0+`), "0"},
	{regexp.MustCompile(`[█░]+`), "█"},
	{regexp.MustCompile(`\s+`), " "},
}

func shape(line string) string {
	for _, v := range varies {
		line = v.pattern.ReplaceAllString(line, v.with)
	}
	return strings.TrimSpace(line)
}

func TestSamplesAreComparedByShape(t *testing.T) {
	for _, c := range []struct {
		want, got string
		same      bool
	}{
		{"saved  $0.0001  since 2026-11-22T14:26:20Z, 23s ago", "saved $1.25 since 2026-11-23T04:00:01Z, 1m2s ago", true},
		{"general-purpose-15fb44ba7b  c6a.16xlarge  4m", "general-purpose-25fb44ba70   m5.large  51s", true},
		{"a\n…\nz", "a\nb\nc\nz", true},
		{"pool general-purpose  …", "pool general-purpose  nothing fits", true},
		{"Empty  $0.0001", "Underutilized  $0.0001", false},
		{"a\nb", "a", false},
		{"a", "a\nb", false},
	} {
		if sameShape(strings.Split(c.want, "\n"), strings.Split(c.got, "\n")) != c.same {
			t.Errorf("%q and %q: want same=%v\n%q\n%q", c.want, c.got, c.same, shape(c.want), shape(c.got))
		}
	}
}
