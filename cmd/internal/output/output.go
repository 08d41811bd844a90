// Package output prints data in the formats that kubectl's users know: JSON, YAML, a JSONPath, custom columns, a
// template.
package output

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/internal/kit/printable"
)

// Forms are the formats that the help of -o lists after json and yaml.
const Forms = "jsonpath=…, custom-columns=… or go-template=…"

// IsData reports whether Rows accepts a value of -o.
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

// Data prints anything as JSON or YAML, with unprintable characters escaped.
func Data(w io.Writer, format string, data any) error {
	text, err := json.MarshalIndent(data, "", "  ")
	if err != nil {
		return fmt.Errorf("write as %s: %w", format, err)
	}
	text = printable.JSON(text)
	if format == "yaml" {
		if text, err = yaml.JSONToYAML(text); err != nil {
			return fmt.Errorf("write as %s: %w", format, err)
		}
		text = []byte(printable.Lines(string(text)))
	}
	_, err = fmt.Fprintln(w, strings.TrimRight(string(text), "\n"))
	return err
}

// printer writes plain data: maps, lists, strings and numbers, as decoded from JSON.
type printer func(w io.Writer, plain map[string]any, rows string, headers bool) error

// Check validates a value of -o before a cluster is asked anything: it must be one of the tables, or satisfy IsData.
func Check(output string, tables ...string) error {
	if slices.Contains(tables, output) {
		return nil
	}
	if !IsData(output) {
		known := slices.DeleteFunc(slices.Clone(tables), func(t string) bool { return t == "" })
		return fmt.Errorf("unknown output %q: use -o %s, or leave it out", output,
			strings.Join(append(known, "json", "yaml", Forms), ", "))
	}
	_, err := compile(output)
	return err
}

// Rows prints anything in a format that satisfies IsData: as a whole or, with custom-columns, a row for each element
// of the field rows (for the whole if rows is empty), below titles if headers is set.
func Rows(w io.Writer, output string, data any, rows string, headers bool) error {
	print, err := compile(output)
	if err != nil {
		return err
	}
	form, _, _ := strings.Cut(output, "=")
	if print == nil {
		return Data(w, form, data)
	}
	text, err := json.Marshal(data)
	var plain map[string]any
	if err == nil {
		err = utiljson.Unmarshal(text, &plain) // integers stay integers: 1000000, not 1e+06
	}
	if err != nil {
		return fmt.Errorf("write as %s: %w", form, err)
	}
	var out strings.Builder
	if err := print(&out, plain, rows, headers); err != nil {
		return fmt.Errorf("-o %s: %w", form, err)
	}
	_, err = io.WriteString(w, printable.Lines(out.String()))
	return err
}

// compile parses what follows the format's name; JSON and YAML need no printer.
func compile(output string) (print printer, err error) {
	form, of, _ := strings.Cut(output, "=")
	if form == "json" || form == "yaml" {
		return nil, nil
	}
	if of == "" {
		such := map[string]string{
			"jsonpath": "jsonpath={.kind}", "custom-columns": "custom-columns=NAME:.name",
			"go-template": "go-template={{.kind}}",
		}
		return nil, fmt.Errorf("-o %s: say what to print, such as -o '%s'; -o yaml shows which fields there are", form,
			such[form])
	}
	switch form {
	case "jsonpath":
		print, err = pathPrinter(of)
	case "go-template":
		print, err = templatePrinter(of)
	case "custom-columns":
		print, err = columnsPrinter(of)
	default:
		err = fmt.Errorf("unknown: use json, yaml, %s", Forms)
	}
	if err != nil {
		return nil, fmt.Errorf("-o %s: %w", form, err)
	}
	return print, nil
}

func pathPrinter(path string) (printer, error) {
	p, err := parsePath(path)
	return func(w io.Writer, plain map[string]any, _ string, _ bool) error { return p.Execute(w, plain) }, err
}

// parsePath parses a path; as with kubectl, the braces and the first dot may be omitted.
func parsePath(path string) (*jsonpath.JSONPath, error) {
	whole := path
	if !strings.Contains(path, "{") {
		whole = "{." + strings.TrimPrefix(path, ".") + "}"
	}
	p := jsonpath.New("-o").AllowMissingKeys(true)
	if err := p.Parse(whole); err != nil {
		return nil, fmt.Errorf("%q is no path, such as {.items[*].id}: %w", path, err)
	}
	return p, nil
}

// columnsPrinter parses columns TITLE:PATH, separated by commas.
func columnsPrinter(columns string) (printer, error) {
	var titles []string
	var paths []*jsonpath.JSONPath
	for _, c := range strings.Split(columns, ",") {
		title, path, ok := strings.Cut(c, ":")
		if !ok || title == "" || path == "" {
			return nil, fmt.Errorf("%q is no column: write TITLE:PATH, such as NAME:.name, separated by commas", c)
		}
		p, err := parsePath(path)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", title, err)
		}
		titles, paths = append(titles, title), append(paths, p)
	}
	return func(w io.Writer, plain map[string]any, rows string, headers bool) error {
		t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
		if headers {
			fmt.Fprintln(t, strings.Join(titles, "\t"))
		}
		for _, row := range elements(plain, rows) {
			cells := make([]string, len(paths))
			for i, path := range paths {
				var cell strings.Builder
				if err := path.Execute(&cell, row); err != nil {
					return fmt.Errorf("column %s: %w", titles[i], err)
				}
				if cells[i] = printable.Text(cell.String()); cells[i] == "" {
					cells[i] = "<none>"
				}
			}
			fmt.Fprintln(t, strings.Join(cells, "\t"))
		}
		return t.Flush()
	}, nil
}

// elements returns the elements of the list in a field, which may be missing, or the whole if no field is named.
func elements(plain map[string]any, rows string) []any {
	if rows == "" {
		return []any{plain}
	}
	list, _ := plain[rows].([]any)
	return list
}

// Table prints rows in aligned columns, with unprintable characters escaped.
func Table(w io.Writer, rows ...[]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, cells := range rows {
		for i, cell := range cells {
			cells[i] = printable.Text(cell)
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	return t.Flush()
}
