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

// A library goes when its reason goes; services of the AWS SDK share the SDK's reason.
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

// The README's commands are run by test/stories; that they exist is checked here, where it costs nothing.
func TestReadmeCommandsExist(t *testing.T) {
	makefile := read(t, "Makefile")
	for _, m := range regexp.MustCompile(`(?m)^make ([a-z-]+)`).FindAllStringSubmatch(read(t, "README.md"), -1) {
		if !strings.Contains(makefile, "\n"+m[1]+":") {
			t.Errorf("README says `make %s`, the Makefile has no such target", m[1])
		}
	}
	commands := ""
	files, err := filepath.Glob(filepath.Join("..", "..", "cmd", "nodeless", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		commands += read(t, filepath.Join("cmd", "nodeless", filepath.Base(f)))
	}
	for _, m := range regexp.MustCompile(`(?m)^(?:bin/)?nodeless ([a-z]+)`).FindAllStringSubmatch(read(t, "README.md"), -1) {
		if !regexp.MustCompile(`Use:\s+"` + m[1] + `[ "]`).MatchString(commands) {
			t.Errorf("README says `nodeless %s`, there is no such command", m[1])
		}
	}
}

func TestReadmeLinksLeadSomewhere(t *testing.T) {
	for _, m := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(read(t, "README.md"), -1) {
		if _, err := os.Stat(filepath.Join("..", "..", m[1])); err != nil {
			t.Errorf("README links to %s, which is not there", m[1])
		}
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
