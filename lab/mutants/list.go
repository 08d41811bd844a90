package main

import (
	"embed"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

//go:embed *.txt
var lists embed.FS

// mutant is a fault that a programmer might introduce, and the tests that must detect it.
type mutant struct {
	name  string   // what goes wrong, in domain terms
	at    string   // its position in the lists, such as engine.txt:12
	file  string   // the source file, from the root of the module
	old   []string // lines of that file; indentation is ignored
	new   []string // the lines that replace them
	tests []tests
}

// tests are the tests of a package whose names match a pattern, or all of them if the pattern is empty.
type tests struct{ pkg, run string }

// readLists reads all lists of this folder, in order of name.
func readLists() ([]mutant, error) {
	files, err := lists.ReadDir(".")
	if err != nil {
		return nil, err
	}
	var out []mutant
	at := map[string]string{}
	for _, f := range files {
		text, err := lists.ReadFile(f.Name())
		if err != nil {
			return nil, err
		}
		ms, err := parse(f.Name(), string(text))
		if err != nil {
			return nil, err
		}
		for _, m := range ms {
			if other := at[m.name]; other != "" {
				return nil, fmt.Errorf("%s: mutant %q is in the list already, at %s", m.at, m.name, other)
			}
			at[m.name] = m.at
		}
		out = append(out, ms...)
	}
	return out, nil
}

// parse parses a list: blocks separated by empty lines, as shown in the package comment. Lines that begin with # are
// comments.
func parse(file, text string) ([]mutant, error) {
	var out []mutant
	var m *mutant // the current block
	for i, line := range strings.Split(text+"\n", "\n") {
		at := fmt.Sprintf("%s:%d", file, i+1)
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		if line == "" {
			if m != nil {
				if err := m.complete(); err != nil {
					return nil, err
				}
				out = append(out, *m)
			}
			m = nil
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		rest = strings.TrimSpace(rest)
		if (word == "mutant") != (m == nil) {
			return nil, fmt.Errorf("%s: a block begins with a line mutant, and has no other: %q", at, line)
		}
		switch word {
		case "mutant":
			m = &mutant{name: rest, at: at}
		case "file":
			m.file = rest
		case "test":
			pkg, run, _ := strings.Cut(rest, " ")
			m.tests = append(m.tests, tests{pkg, strings.TrimSpace(run)})
		case "-":
			m.old = append(m.old, rest)
		case "+":
			m.new = append(m.new, rest)
		default:
			return nil, fmt.Errorf("%s: want mutant, file, test, - or +, not %q", at, line)
		}
	}
	return out, nil
}

// complete returns an error if the block lacks something or has an invalid pattern.
func (m *mutant) complete() error {
	if m.name == "" || m.file == "" || len(m.tests) == 0 || len(m.old) == 0 {
		return fmt.Errorf("%s: mutant %q needs a name, a file, a test and a text to replace", m.at, m.name)
	}
	for _, t := range m.tests {
		if _, err := regexp.Compile(t.run); err != nil {
			return fmt.Errorf("%s: mutant %q: %w", m.at, m.name, err)
		}
	}
	return nil
}

// plant returns the source with the fault in it, and the line of the fault.
func (m *mutant) plant(root string) (source string, line int, err error) {
	text, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return "", 0, fmt.Errorf("%s: mutant %q: %w", m.at, m.name, err)
	}
	var old []string
	for _, l := range m.old {
		old = append(old, regexp.QuoteMeta(l))
	}
	places := regexp.MustCompile(strings.Join(old, `\n[\t ]*`)).FindAllIndex(text, -1)
	if len(places) != 1 {
		return "", 0, fmt.Errorf("%s: mutant %q: its text is %d times in %s, not once: the code has changed, so change "+
			"the list too",
			m.at, m.name, len(places), m.file)
	}
	from, to := places[0][0], places[0][1]
	source = string(text[:from]) + strings.Join(m.new, "\n") + string(text[to:])
	if source == string(text) {
		return "", 0, fmt.Errorf("%s: mutant %q changes nothing", m.at, m.name)
	}
	if _, err := parser.ParseFile(token.NewFileSet(), m.file, source, parser.SkipObjectResolution); err != nil {
		return "", 0, fmt.Errorf("%s: mutant %q is no Go: %w", m.at, m.name, err)
	}
	return source, 1 + strings.Count(string(text[:from]), "\n"), nil
}
