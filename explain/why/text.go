package why

import (
	"fmt"
	"io"
	"strings"

	"github.com/nodeless/nodeless/internal/kit/printable"
)

// Text writes an answer for people; colour highlights what matters most. Lines are wrapped at width, if it is not 0,
// except commands. Text from the cluster is escaped: no name or message can move the cursor or change the direction
// of writing.
func (a *Answer) Text(w io.Writer, colour bool, width int) error {
	bold, dim, off := "", "", ""
	if colour {
		bold, dim, off = "\x1b[1m", "\x1b[2m", "\x1b[0m"
	}
	var b strings.Builder
	title := printable.Text(a.Subject.String()) + "  " + printable.Text(a.State)
	lines := wrap(title+"  "+printable.Text(a.Summary), width, 1)
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
			text = wrap(text[0], width-labels-3, 0)
		}
		fmt.Fprintf(&b, " %s%-*s%s  %s\n", dim, labels, printable.Text(label), off,
			strings.Join(text, "\n"+strings.Repeat(" ", labels+3)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// commandLabel labels lines that are meant for a shell.
const commandLabel = "command"

// minWidth is the narrowest width to which text is wrapped.
const minWidth = 20

// wrap breaks a text at spaces into lines of at most width characters; lines after the first are indented. A width
// below minWidth leaves one line.
func wrap(text string, width, indent int) []string {
	if width < minWidth || len([]rune(text)) <= width {
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
