package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Limits that keep the code readable. Code that reaches one is split by role: the reader matters, not the limit.
const (
	maxMethods    = 40  // of one type
	maxLines      = 60  // of one function
	maxComplexity = 20  // of one function: its branches and one
	maxColumns    = 120 // of one line, a tab counting as one
	maxDepth      = 8   // imports in the longest chain, from the program to a package that imports none of this module
)

// source is a parsed Go file of this module that is neither a test nor generated.
type source struct {
	path string // from the repository's root
	text string
	fset *token.FileSet
	file *ast.File
}

func sources(t *testing.T) []source {
	t.Helper()
	root := filepath.Join("..", "..")
	var out []source
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git" || d.Name() == "testdata" ||
			path == filepath.Join(root, "bin")) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, text, parser.ParseComments)
		if err != nil {
			return err
		}
		if !ast.IsGenerated(file) {
			rel, _ := filepath.Rel(root, path)
			out = append(out, source{rel, string(text), fset, file})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTypesAndFunctionsStaySmall(t *testing.T) {
	methods := map[string]int{}
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			if f.Recv != nil {
				methods[filepath.Dir(s.path)+"."+receiver(f.Recv.List[0].Type)]++
			}
			from, to := s.fset.Position(f.Pos()).Line, s.fset.Position(f.End()).Line
			if n := to - from + 1; n > maxLines {
				t.Errorf("%s:%d: %s has %d lines, more than %d", s.path, from, f.Name.Name, n, maxLines)
			}
			if n := complexity(f); n > maxComplexity {
				t.Errorf("%s:%d: %s has the cyclomatic complexity %d, more than %d", s.path, from, f.Name.Name, n, maxComplexity)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		if n := methods[name]; n > maxMethods {
			t.Errorf("type %s has %d methods, more than %d", name, n, maxMethods)
		}
	}
}

// receiver returns the name of a method's type, without its star and type parameters.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// complexity returns McCabe's number as gocyclo counts it: one, plus one for each if, loop, case, && and ||.
func complexity(f *ast.FuncDecl) int {
	n := 1
	ast.Inspect(f, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if node.List != nil {
				n++
			}
		case *ast.CommClause:
			if node.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

func TestLinesFitTheScreen(t *testing.T) {
	for _, s := range sources(t) {
		for i, line := range strings.Split(s.text, "\n") {
			marker := strings.Contains(line, "+kubebuilder:") // it cannot be broken
			if n := len([]rune(line)); n > maxColumns && !marker {
				t.Errorf("%s:%d: %d columns, more than %d", s.path, i+1, n, maxColumns)
			}
		}
	}
}

// A long chain of imports is a long list of packages to read before one is understood.
func TestImportsAreShallow(t *testing.T) {
	imports := map[string][]string{}
	for _, p := range packages(t) {
		imports[p.ImportPath] = p.Imports
	}
	chains := map[string][]string{}
	var longest func(path string) []string
	longest = func(path string) []string {
		if chain, ok := chains[path]; ok {
			return chain
		}
		var below []string
		for _, i := range imports[path] {
			if _, ok := ours(i); ok {
				if chain := longest(i); len(chain) > len(below) {
					below = chain
				}
			}
		}
		rel, _ := ours(path)
		chains[path] = append([]string{rel}, below...)
		return chains[path]
	}
	for _, path := range slices.Sorted(maps.Keys(imports)) {
		if chain := longest(path); len(chain)-1 > maxDepth {
			t.Errorf("%d imports, more than %d, in a chain: %s", len(chain)-1, maxDepth, strings.Join(chain, " → "))
		}
	}
}
