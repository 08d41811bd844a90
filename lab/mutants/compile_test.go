package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// goPackage is a package as listed by go list.
type goPackage struct {
	ImportPath, Dir, Export string
	CompiledGoFiles         []string
}

// make test plants a mutant on one day in ten, and one that does not compile would fail only then. Therefore all are
// type-checked here.
func TestEachMutantCompiles(t *testing.T) {
	ms, err := readLists()
	if err != nil {
		t.Fatal(err)
	}
	dirs := map[string]bool{}
	for _, m := range ms {
		dirs["./"+filepath.Dir(m.file)] = true
	}
	args := []string{"list", "-e", "-export", "-compiled", "-deps", "-json=ImportPath,Dir,Export,CompiledGoFiles"}
	for d := range dirs {
		args = append(args, d)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	exported, byDir := map[string]string{}, map[string]goPackage{}
	for list := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := list.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exported[p.ImportPath], byDir[p.Dir] = p.Export, p
	}
	set := token.NewFileSet()
	compiled := importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exported[path])
	})
	for _, m := range ms {
		if err := typeCheck(m, byDir, set, compiled); err != nil {
			t.Errorf("%s: mutant %q does not compile: %v", m.at, m.name, err)
		}
	}
}

// typeCheck type-checks the package of the mutant's file with the mutant in place of the file.
func typeCheck(m mutant, byDir map[string]goPackage, set *token.FileSet, compiled types.Importer) error {
	source, _, err := m.plant(root)
	if err != nil {
		return err
	}
	changed, err := filepath.Abs(filepath.Join(root, m.file))
	if err != nil {
		return err
	}
	pkg := byDir[filepath.Dir(changed)]
	if !slices.Contains(pkg.CompiledGoFiles, filepath.Base(changed)) {
		return fmt.Errorf("%s is not compiled on this machine", m.file)
	}
	var files []*ast.File
	for _, name := range pkg.CompiledGoFiles {
		path, text := filepath.Join(pkg.Dir, name), any(nil)
		if path == changed {
			text = source
		}
		f, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	_, err = (&types.Config{Importer: compiled}).Check(pkg.ImportPath, set, files, nil)
	return err
}
