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
	for _, f := range documents(t) {
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

// documents returns the names of all documents.
func documents(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md", "docs/experiments/*.md"} {
		found, err := filepath.Glob(filepath.Join("..", "..", pattern))
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, found, err)
		}
		for _, f := range found {
			files = append(files, filepath.Join(filepath.Dir(pattern), filepath.Base(f)))
		}
	}
	return files
}

// notRun gives, for each ```bash block of a document, the reason why lab/stories does not run it.
var notRun = map[string][]string{
	"CONTRIBUTING.md":                         {"builds and tests everything"},
	"docs/experiments/cost-over-time.md":      {"a template for runs of hours"},
	"docs/experiments/interruptions.md":       {"minutes"},
	"docs/experiments/microvm-starts.md":      {"minutes, on a machine without other work"},
	"docs/how-do-i-run-it-on-my-cluster.md":   {"needs a registry and Helm", "builds for minutes, needs krew", "CloudFormation"},
	"docs/how-does-a-pod-run-in-a-microvm.md": {"installs Debian's packages as root"},
	"docs/what-does-my-cluster-look-like.md":  {"serves until Ctrl-C", "serves until Ctrl-C"},
}

// The language of a block says how its commands are tested: lab/stories runs ```sh blocks and compares ```console
// blocks with the output; commands that cannot run there are in ```bash blocks, each with its reason above.
func TestEveryBlockOfADocumentHasALanguage(t *testing.T) {
	block := regexp.MustCompile("(?ms)^ *```([a-z]*)\n(.*?)^ *```$")
	command := regexp.MustCompile(`(?m)^ *(\$ )?(nodeless|bin/nodeless|kubectl|aws|make|helm|curl) `)
	for _, f := range documents(t) {
		if f == "docs/cli.md" {
			continue // the commands' own help
		}
		bash := 0
		for _, m := range block.FindAllStringSubmatch(read(t, f), -1) {
			switch language, text := m[1], m[2]; language {
			case "sh":
				checkTargets(t, f, text)
				if filepath.Dir(f) != "docs" && f != "README.md" && f != "README.ko.md" {
					t.Errorf("%s: lab/stories runs no blocks of this document; make it ```bash:\n%s", f, text)
				}
			case "bash":
				checkTargets(t, f, text)
				bash++
			case "console":
			case "":
				t.Errorf("%s: a block has no language:\n%s", f, text)
			default:
				if command.MatchString(text) {
					t.Errorf("%s: nobody runs the commands of a block of %s:\n%s", f, language, text)
				}
			}
		}
		if reasons := notRun[f]; bash != len(reasons) {
			t.Errorf("%s has %d ```bash blocks, which do not run, and reasons for %q", f, bash, reasons)
		}
	}
}

// checkTargets checks that the Makefile has the targets that a document's commands name.
func checkTargets(t *testing.T, document, commands string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^make ([a-z -]+[a-z])`).FindAllStringSubmatch(commands, -1) {
		for target := range strings.FieldsSeq(m[1]) {
			if !strings.Contains(read(t, "Makefile"), "\n"+target+":") {
				t.Errorf("%s says `make %s`, the Makefile has no such target", document, target)
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

// The Korean README has the same commands and output as the English one, whose lab/stories runs and compares.
func TestTheKoreanReadmeSaysTheSameCommands(t *testing.T) {
	output := regexp.MustCompile("(?s)```console\n.*?```")
	if output.FindString(read(t, "README.md")) != output.FindString(read(t, "README.ko.md")) {
		t.Error("the output in README.ko.md differs from that in README.md")
	}
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
