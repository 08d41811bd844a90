package table

import (
	"strings"
	"testing"
)

func TestPrintAlignsColumns(t *testing.T) {
	tb := New(1, "what", "$")
	tb.Add("a thing – dear", "1.50")
	tb.Add("b", "22.00")
	var out strings.Builder
	if err := tb.Print(&out); err != nil {
		t.Fatal(err)
	}
	want := `
| what           |     $ |
|----------------|------:|
| a thing – dear |  1.50 |
| b              | 22.00 |
`
	if out.String() != want || tb.Len() != 2 {
		t.Errorf("%d rows:\n%s\nwant 2:\n%s", tb.Len(), out.String(), want)
	}
}
