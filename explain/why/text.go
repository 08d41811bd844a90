package why

import (
	"fmt"
	"io"
	"strings"

	"github.com/nodeless/nodeless/internal/kit/printable"
)

// Text writes an answer for people; with colour what matters most stands out. Lines are broken at a width, if there
// is one, but not those that are commands. Whatever comes from the cluster is escaped: no name or message can move
// the cursor or turn the text around.
func (a *Answer) Text(w io.Writer, colour bool, width int) error {
	bold, dim, off := "", "", ""
	if colour {
		bold, dim, off = "\x1b[1m", "\x1b[2m", "\x1b[0m"
	}
	var b strings.Builder
	title := printable.Text(a.Subject.String()) + "  " + printable.Text(a.State)
	lines := broken(title+"  "+printable.Text(a.Summary), width, 1)
	if rest, whole := strings.CutPrefix(lines[0], title); whole && colour {
		subject := printable.Text(a.Subject.String())
		lines[0] = bold + subject + off + strings.TrimPrefix(title, subject) + bold + rest + off
	}
	fmt.Fprintln(&b, strings.Join(lines, "\n"))
	labels := 0
	for _, f := range a.Facts {
		labels = max(labels, len([]rune(f.Label)))
	}
	last := ""
	for _, f := range a.Facts {
		label := f.Label
		if label == last {
			label = ""
		}
		last = f.Label
		text := []string{printable.Text(f.Text)}
		if f.Label != commandLabel {
			text = broken(text[0], width-labels-3, 0)
		}
		fmt.Fprintf(&b, " %s%-*s%s  %s\n", dim, labels, printable.Text(label), off,
			strings.Join(text, "\n"+strings.Repeat(" ", labels+3)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// commandLabel is the label of lines that are to be copied into a shell.
const commandLabel = "command"

// leastWidth is the narrowest that text is broken to: below it nothing can be read.
const leastWidth = 20

// broken is a text in lines of at most so many characters, which are broken at spaces; lines after the first begin
// with an indent. A width below leastWidth leaves one line.
func broken(text string, width, indent int) []string {
	if width < leastWidth || len([]rune(text)) <= width {
		return []string{text}
	}
	var lines []string
	line := ""
	for word := range strings.SplitSeq(text, " ") {
		switch {
		case line == "" && len(lines) == 0:
			line = word
		case len([]rune(line))+1+len([]rune(word)) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = strings.Repeat(" ", indent) + word
		}
	}
	return append(lines, line)
}
