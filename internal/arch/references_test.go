package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	rooms     = `(?:api|catalog|cloud|cmd|controller|docs|engine|examples|explain|internal|lab|microvm|plane|region|scripts|tools|view)`
	pathNamed = regexp.MustCompile(`(?:^|[\s("'` + "`" + `])((?:\./)?` + rooms + `/[A-Za-z0-9_./-]*[A-Za-z0-9_])`)
	// A document named without a folder is one of this repository's; other projects' documents have a path.
	documentNamed = regexp.MustCompile(`(?:^|[\s("'])([A-Za-z][A-Za-z0-9_-]*\.md)\b`)
	adrNamed      = regexp.MustCompile(`ADR (\d+)`)
)

// Files, packages and ADRs that comments refer to exist.
func TestReferencesInCommentsResolve(t *testing.T) {
	root := filepath.Join("..", "..")
	adrs, err := filepath.Glob(filepath.Join(root, "docs", "adr", "*.md"))
	if err != nil || len(adrs) == 0 {
		t.Fatal(adrs, err)
	}
	known := map[string]bool{}
	for _, a := range adrs {
		number, _, _ := strings.Cut(filepath.Base(a), "-")
		known[strings.TrimLeft(number, "0")] = true
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == "node_modules" || d.Name() == ".git" || path == filepath.Join(root, "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(text), "\n") {
			_, comment, ok := strings.Cut(line, "//")
			if !ok || strings.Contains(line, `"`) {
				continue // a string, or a URL in one
			}
			for _, m := range pathNamed.FindAllStringSubmatch(comment, -1) {
				if !referenced(root, m[1]) {
					t.Errorf("%s:%d: %s is not there", path, i+1, m[1])
				}
			}
			for _, m := range documentNamed.FindAllStringSubmatch(comment, -1) {
				if !slices.ContainsFunc([]string{"", "docs", "docs/adr", "docs/experiments"}, func(dir string) bool {
					_, err := os.Stat(filepath.Join(root, dir, m[1]))
					return err == nil
				}) {
					t.Errorf("%s:%d: there is no document %s", path, i+1, m[1])
				}
			}
			for _, m := range adrNamed.FindAllStringSubmatch(comment, -1) {
				if !known[m[1]] {
					t.Errorf("%s:%d: there is no ADR %s", path, i+1, m[1])
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// referenced reports whether there is such a file or folder, or a folder followed by a Go name: engine/model.Plan.
func referenced(root, path string) bool {
	for p := path; p != "."; {
		if _, err := os.Stat(filepath.Join(root, p)); err == nil {
			return true
		}
		if m, _ := filepath.Glob(filepath.Join(root, p+"*")); len(m) > 0 && strings.Contains(p, "docs/adr/") {
			return true // an ADR by its number
		}
		dot := strings.LastIndexByte(p, '.')
		if dot < strings.LastIndexByte(p, '/') {
			return false
		}
		p = p[:dot]
	}
	return false
}
