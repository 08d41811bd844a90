package arch

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// unordered is the comment that a range over a map in the engine must carry, on its own line or the one above, with a
// reason: sums, membership and collecting then sorting do not depend on the order.
const unordered = "order does not matter:"

// impure lists what a pure function cannot call, by import path and name ("" = the whole package).
var impure = map[string][]string{
	"time":         {"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker"},
	"os":           {""},
	"log":          {""},
	"log/slog":     {""},
	"sync":         {""},
	"sync/atomic":  {""},
	"net":          {""},
	"net/http":     {""},
	"runtime":      {""},
	"crypto/rand":  {""},
	"math/rand":    {""},
	"math/rand/v2": {"Int", "IntN", "Int64", "Int64N", "N", "Uint64", "Float64", "Perm", "Shuffle"},
}

func TestTheEngineIsPure(t *testing.T) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	build.Default.GOROOT = strings.TrimSpace(string(root)) // which a test built with -trimpath does not know
	fset := token.NewFileSet()
	imp := importer.ForCompiler(fset, "source", nil)
	for _, p := range packages(t) {
		if !under(p.rel(), "engine") {
			continue
		}
		var files []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
		if _, err := (&types.Config{Importer: imp}).Check(p.ImportPath, fset, files, info); err != nil {
			t.Fatalf("type-check %s: %v", p.rel(), err)
		}
		for _, f := range files {
			for _, finding := range impurities(fset, f, info) {
				t.Errorf("%s\n  rule: the engine is pure: same snapshot and policy, same plan (DESIGN, idea 1)", finding)
			}
		}
	}
}

// impurities returns the places in a file where something other than its arguments could affect the result.
func impurities(fset *token.FileSet, f *ast.File, info *types.Info) []string {
	var found []string
	reasons := map[int]bool{}
	for _, g := range f.Comments {
		for _, c := range g.List {
			if strings.Contains(c.Text, unordered) {
				reasons[fset.Position(c.Pos()).Line] = true
			}
		}
	}
	add := func(n ast.Node, format string, args ...any) {
		found = append(found, fmt.Sprintf("%s: %s", fset.Position(n.Pos()), fmt.Sprintf(format, args...)))
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			add(n, "starts a goroutine")
		case *ast.SelectStmt:
			add(n, "selects on channels")
		case *ast.RangeStmt:
			if _, isMap := info.TypeOf(n.X).Underlying().(*types.Map); isMap {
				line := fset.Position(n.Pos()).Line
				if !reasons[line] && !reasons[line-1] {
					add(n, "ranges over a map; say `// %s …` if it really does not, else sort the keys", unordered)
				}
			}
		case *ast.Ident:
			o := info.Uses[n]
			if o == nil || o.Pkg() == nil {
				return true
			}
			names, listed := impure[o.Pkg().Path()]
			if _, isFunc := o.(*types.Func); listed && isFunc &&
				(names[0] == "" || (slices.Contains(names, o.Name()) && o.Parent() == o.Pkg().Scope())) {
				add(n, "calls %s.%s", o.Pkg().Path(), o.Name())
			}
		}
		return true
	})
	return found
}

// Client-go's scheme is shared by the whole program and has no lock: adding to it while a watch decodes ends the
// program with "concurrent map read and map write". Code that needs more kinds makes its own scheme, or adds them in
// init.
func TestOnlyInitAddsToTheSchemeOfClientGo(t *testing.T) {
	adds := regexp.MustCompile(`AddToScheme\(\w*scheme\.Scheme\)|\bscheme\.Scheme\.AddKnown`)
	for _, p := range packages(t) {
		for _, name := range p.GoFiles {
			for i, line := range strings.Split(read(t, filepath.Join(p.rel(), name)), "\n") {
				if adds.MatchString(line) && !strings.HasPrefix(line, "func init()") {
					t.Errorf("%s/%s:%d adds to client-go's scheme while the program runs", p.rel(), name, i+1)
				}
			}
		}
	}
}
