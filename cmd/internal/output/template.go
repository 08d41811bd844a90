//go:build !noplane

package output

import (
	"fmt"
	"io"
	"text/template"
)

func templatePrinter(text string) (printer, error) {
	t, err := template.New("-o").Option("missingkey=zero").Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%q is no template of Go: %w", text, err)
	}
	return func(w io.Writer, plain map[string]any, _ string, _ bool) error { return t.Execute(w, plain) }, nil
}
