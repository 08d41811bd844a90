package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Every dependency needs a reason, without which it can be removed; services of the AWS SDK share the SDK's reason.
func TestEveryDirectDependencyHasAReason(t *testing.T) {
	reasons := read(t, "docs/dependencies.md")
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(read(t, "go.mod"), -1) {
		path := m[1]
		if strings.HasPrefix(path, "github.com/aws/aws-sdk-go-v2/") {
			continue
		}
		if !strings.Contains(reasons, path) {
			t.Errorf("%s is required by go.mod but docs/dependencies.md gives no reason for it", path)
		}
	}
}

// lab/stories runs the README's commands; this test checks cheaply that they exist.
func TestReadmeCommandsExist(t *testing.T) {
	makefile := read(t, "Makefile")
	for _, m := range regexp.MustCompile(`(?m)^make ([a-z-]+)`).FindAllStringSubmatch(read(t, "README.md"), -1) {
		if !strings.Contains(makefile, "\n"+m[1]+":") {
			t.Errorf("README says `make %s`, the Makefile has no such target", m[1])
		}
	}
	commands := ""
	files, err := filepath.Glob(filepath.Join("..", "..", "cmd", "internal", "*", "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range append(files, filepath.Join("..", "..", "cmd", "nodeless", "main.go")) {
		commands += read(t, strings.TrimPrefix(f, filepath.Join("..", "..")))
	}
	for _, m := range regexp.MustCompile(`(?m)^(?:bin/)?nodeless ([a-z]+)`).FindAllStringSubmatch(read(t, "README.md"),
		-1) {
		if !regexp.MustCompile(`Use:\s+"` + m[1] + `[ "]`).MatchString(commands) {
			t.Errorf("README says `nodeless %s`, there is no such command", m[1])
		}
	}
}

// Links between documents lead to existing files and headings. Text in code blocks is not a link.
func TestLinksLeadSomewhere(t *testing.T) {
	files := []string{"README.md", "README.ko.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"}
	for _, pattern := range []string{"docs/*.md", "docs/adr/*.md", "docs/experiments/*.md"} {
		found, err := filepath.Glob(filepath.Join("..", "..", pattern))
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, found, err)
		}
		for _, f := range found {
			files = append(files, filepath.Join(filepath.Dir(pattern), filepath.Base(f)))
		}
	}
	for _, f := range files {
		for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(prose(read(t, f)), -1) {
			to, heading, _ := strings.Cut(m[1], "#")
			if strings.Contains(to, ":") {
				continue // elsewhere: tests use no network
			}
			if to = filepath.Join(filepath.Dir(f), to); strings.HasPrefix(m[1], "#") {
				to = f
			}
			if _, err := os.Stat(filepath.Join("..", "..", to)); err != nil {
				t.Errorf("%s links to %s, which is not there", f, m[1])
			} else if heading != "" && !anchors(read(t, to))[heading] {
				t.Errorf("%s links to %s, which has no such heading", f, m[1])
			}
		}
	}
}

var (
	codeBlock   = regexp.MustCompile("(?ms)^```.*?^```$")
	codePiece   = regexp.MustCompile("`[^`\n]*`")
	headingLine = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// prose returns a document without its code blocks and inline code.
func prose(text string) string {
	return codePiece.ReplaceAllString(codeBlock.ReplaceAllString(text, ""), "`")
}

// anchors returns the anchors of a document's headings, as links name them.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range headingLine.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		heading := notInAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(m[1])), "")
		out[strings.ReplaceAll(heading, " ", "-")] = true
	}
	return out
}

// The reading order of ARCHITECTURE.md fits an afternoon: at most 8,000 lines, from the engine's model to NodeClaims.
func TestTheReadingOrderFitsAnAfternoon(t *testing.T) {
	_, order, _ := strings.Cut(read(t, "ARCHITECTURE.md"), "## Reading order\n")
	order, _, _ = strings.Cut(order, "\n## ")
	lines, first, last := 0, "", ""
	for _, m := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(order, -1) {
		files := []string{m[1]}
		if !strings.HasSuffix(m[1], ".go") {
			found, err := filepath.Glob(filepath.Join("..", "..", m[1], "*.go"))
			if err != nil {
				t.Fatal(err)
			}
			files = nil
			for _, f := range found {
				if !strings.HasSuffix(f, "_test.go") {
					files = append(files, filepath.Join(m[1], filepath.Base(f)))
				}
			}
		}
		for _, f := range files {
			lines += strings.Count(read(t, f), "\n")
		}
		if first == "" {
			first = m[1]
		}
		last = m[1]
	}
	if lines > 8000 || first != "engine/model" || !strings.HasPrefix(last, "controller/nodeclaim/") {
		t.Errorf("%d lines from %s to %s, want at most 8,000 from engine/model to controller/nodeclaim", lines, first, last)
	}
}

// A newcomer finds in ARCHITECTURE.md where something belongs: the file named there already contains one of its kind.
func TestArchitectureSaysWhereThingsBelong(t *testing.T) {
	rows := map[string][]string{}
	for _, line := range strings.Split(read(t, "ARCHITECTURE.md"), "\n") {
		if cells := strings.Split(line, "|"); len(cells) == 5 {
			rows[strings.TrimSpace(cells[1])] = cells
		}
	}
	for _, x := range []struct{ what, file, has string }{
		{"a topology rule", "engine/rules/spread.go", "MaxSkew"},
		{"a topology rule", "engine/rules/podaffinity.go", "affinity"},
		{"an EC2 error code", "cloud/aws/errors.go", `"InsufficientInstanceCapacity"`},
		{"a sentence of `why`", "engine/reason/pod.go", "does not tolerate taint"},
		{"a column of the page", "view/row.go", "type NodeRow struct"},
		{"a column of the page", "view/web/record.go", "price in millionths"},
	} {
		row := rows[x.what]
		if row == nil || !strings.Contains(row[2], "]("+x.file+")") {
			t.Errorf("ARCHITECTURE.md does not say that %s belongs into %s", x.what, x.file)
		} else if !strings.Contains(read(t, x.file), x.has) {
			t.Errorf("%s has no %s: is it still where %s belongs?", x.file, x.has, x.what)
		}
	}
}

// The Korean README has the same commands as the English one, from which lab/stories runs them.
func TestTheKoreanReadmeSaysTheSameCommands(t *testing.T) {
	commands := func(name string) string {
		var out []string
		for _, block := range strings.Split(read(t, name), "```sh\n")[1:] {
			block, _, _ = strings.Cut(block, "```")
			for _, line := range strings.Split(block, "\n") {
				line, _, _ = strings.Cut(line, " #")
				out = append(out, strings.TrimSpace(line))
			}
		}
		return strings.Join(out, "\n")
	}
	if english, korean := commands("README.md"), commands("README.ko.md"); english != korean || english == "" {
		t.Errorf("README.ko.md says\n%s\nREADME.md says\n%s", korean, english)
	}
	if !strings.Contains(read(t, "README.md"), "](README.ko.md)") ||
		!strings.Contains(read(t, "README.ko.md"), "](README.md)") {
		t.Error("the two do not link each other")
	}
}

// Documents are titled by the user's question.
func TestDocumentsAskAQuestion(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		title, _, _ := strings.Cut(read(t, filepath.Join("docs", filepath.Base(f))), "\n")
		if !strings.HasPrefix(title, "# ") || !strings.HasSuffix(title, "?") {
			t.Errorf("docs/%s: its title %q is not a question", filepath.Base(f), title)
		}
		if !strings.Contains(read(t, "README.md"), "docs/"+filepath.Base(f)) {
			t.Errorf("docs/%s is not linked from the README", filepath.Base(f))
		}
	}
}
