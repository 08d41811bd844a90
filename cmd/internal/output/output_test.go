package output

import (
	"strings"
	"testing"
)

func TestListsInEveryForm(t *testing.T) {
	data := map[string]any{
		"kind": "L",
		"items": []any{
			map[string]any{"id": "a", "n": 1000000, "of": map[string]any{"x": "y\x1b[2J"}},
			map[string]any{"id": "b"},
		},
	}
	for output, want := range map[string]string{
		"jsonpath={.items[*].id}":                     "a b",
		"jsonpath=kind":                               "L",
		"jsonpath=.items[0].n":                        "1000000",
		"jsonpath={.missing}":                         "",
		`jsonpath={range .items[*]}{.id}{"\n"}{end}`:  "a\nb\n",
		"go-template={{range .items}}{{.id}}-{{end}}": "a-b-",
		"custom-columns=ID:.id,N:.n,X:.of.x":          "ID   N         X\na    1000000   y\\x1b[2J\nb    <none>    <none>\n",
		"json":                                        "{\n",
	} {
		var out strings.Builder
		if err := Rows(&out, output, data, "items", true); err != nil || !IsData(output) ||
			!strings.HasPrefix(out.String(), want) || want == "" && out.String() != "" {
			t.Errorf("-o %s: %v, %q, want %q", output, err, out.String(), want)
		}
	}
	for output, want := range map[string]string{
		"jsonpath=": "-o 'jsonpath={.kind}'", "custom-columns": "such as", "jsonpath={.items[}": "no path",
		"custom-columns=ID": "TITLE:PATH", "custom-columns=ID:.a[": "column ID",
		"go-template={{": "no template",
	} {
		if err := Check(output); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("-o %s: %v, want %q", output, err, want)
		}
		if err := Rows(&strings.Builder{}, output, data, "items", true); err == nil {
			t.Errorf("-o %s: printed", output)
		}
	}
	for rows, want := range map[string]string{"items": "a\nb\n", "": "<none>\n", "others": ""} {
		var out strings.Builder
		if err := Rows(&out, "custom-columns=ID:.id", data, rows, false); err != nil || out.String() != want {
			t.Errorf("rows of %q: %v, %q, want %q", rows, err, out.String(), want)
		}
	}
	for _, output := range []string{"", "wide", "xml", "json=a", "name"} {
		if IsData(output) {
			t.Errorf("-o %q is taken for data", output)
		}
		if err, table := Check(output, "", "wide"),
			output == "" || output == "wide"; (err == nil) != table || err != nil &&
			!strings.Contains(err.Error(), "use -o wide, json") {
			t.Errorf("-o %q: %v", output, err)
		}
	}
}
