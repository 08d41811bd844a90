// Package output prints data in the forms that kubectl's users know: JSON, YAML, a path of it, columns of one's own, a template.
package output

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"text/template"

	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"

	answers "github.com/nodeless/nodeless/internal/why"
)

// Forms are in the help of -o, behind json and yaml.
const Forms = "jsonpath=…, custom-columns=… or go-template=…"

// IsData reports whether a value of -o is one that Rows takes.
func IsData(output string) bool {
	form, of, _ := strings.Cut(output, "=")
	switch form {
	case "json", "yaml":
		return of == ""
	case "jsonpath", "custom-columns", "go-template":
		return true
	}
	return false
}

// Data prints anything as JSON or YAML, with what cannot be shown written out.
func Data(w io.Writer, format string, data any) error {
	text, err := json.MarshalIndent(data, "", "  ")
	if err != nil {
		return fmt.Errorf("write as %s: %w", format, err)
	}
	text = answers.Escaped(text)
	if format == "yaml" {
		if text, err = yaml.JSONToYAML(text); err != nil {
			return fmt.Errorf("write as %s: %w", format, err)
		}
		text = []byte(answers.PrintableLines(string(text)))
	}
	_, err = fmt.Fprintln(w, strings.TrimRight(string(text), "\n"))
	return err
}

// Rows prints anything in a form that IsData knows: as a whole, or, with custom-columns, a row for each element of the field rows.
func Rows(w io.Writer, output string, data any, rows string) error {
	form, of, _ := strings.Cut(output, "=")
	if form == "json" || form == "yaml" {
		return Data(w, form, data)
	}
	if of == "" {
		return fmt.Errorf("-o %s: say what to print, such as -o %s", form, map[string]string{
			"jsonpath": "jsonpath='{." + rows + "[*]}'", "custom-columns": "custom-columns=NAME:.name", "go-template": "go-template='{{.kind}}'",
		}[form])
	}
	text, err := json.Marshal(data)
	var plain map[string]any
	if err == nil {
		err = json.Unmarshal(text, &plain)
	}
	if err != nil {
		return fmt.Errorf("write as %s: %w", form, err)
	}
	var out strings.Builder
	switch form {
	case "jsonpath":
		err = pathOf(&out, of, plain)
	case "go-template":
		var t *template.Template
		if t, err = template.New("-o").Option("missingkey=zero").Parse(of); err == nil {
			err = t.Execute(&out, plain)
		}
	default:
		list, ok := plain[rows].([]any)
		if !ok {
			list = []any{plain}
		}
		err = columnsOf(&out, of, list)
	}
	if err != nil {
		return fmt.Errorf("-o %s: %w", form, err)
	}
	_, err = io.WriteString(w, answers.PrintableLines(out.String()))
	return err
}

// pathOf writes what a path leads to; as with kubectl, the braces and the first dot may be left away.
func pathOf(w io.Writer, path string, data any) error {
	if !strings.Contains(path, "{") {
		path = "{." + strings.TrimPrefix(path, ".") + "}"
	}
	p := jsonpath.New("-o").AllowMissingKeys(true)
	if err := p.Parse(path); err != nil {
		return fmt.Errorf("%q is no path: %w", path, err)
	}
	return p.Execute(w, data)
}

// columnsOf writes a table of columns TITLE:PATH, separated by commas.
func columnsOf(w io.Writer, columns string, rows []any) error {
	var titles, paths []string
	for _, c := range strings.Split(columns, ",") {
		title, path, ok := strings.Cut(c, ":")
		if !ok || title == "" || path == "" {
			return fmt.Errorf("%q is no column: write TITLE:PATH, such as NAME:.name, separated by commas", c)
		}
		titles, paths = append(titles, title), append(paths, path)
	}
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, strings.Join(titles, "\t"))
	for _, row := range rows {
		cells := make([]string, len(paths))
		for i, path := range paths {
			var cell strings.Builder
			if err := pathOf(&cell, path, row); err != nil {
				return err
			}
			if cells[i] = answers.Printable(cell.String()); cells[i] == "" {
				cells[i] = "<none>"
			}
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	return t.Flush()
}
