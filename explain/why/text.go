package why

import (
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/nodeless/nodeless/internal/kit/printable"
)

// Format says how to write an answer.
type Format struct {
	Colour bool // highlights what matters most
	Width  int  // columns at which lines, except commands, are wrapped; 0 = never
	// Say translates a sentence; nil = English.
	Say func(string) string
}

// Text writes an answer for people. It escapes text from the cluster: no name or message can move the cursor or
// change the text direction.
func (a *Answer) Text(w io.Writer, f Format) error {
	say := f.Say
	if say == nil {
		say = func(text string) string { return text }
	}
	bold, dim, off := "", "", ""
	if f.Colour {
		bold, dim, off = "\x1b[1m", "\x1b[2m", "\x1b[0m"
	}
	var b strings.Builder
	title := printable.Text(a.Subject.String()) + "  " + printable.Text(say(a.State))
	lines := wrap(title+"  "+printable.Text(say(a.Summary)), f.Width, 1)
	if rest, whole := strings.CutPrefix(lines[0], title); whole && f.Colour {
		subject := printable.Text(a.Subject.String())
		lines[0] = bold + subject + off + strings.TrimPrefix(title, subject) + bold + rest + off
	}
	fmt.Fprintln(&b, strings.Join(lines, "\n"))
	labels := 0
	for _, fact := range a.Facts {
		labels = max(labels, ansi.StringWidth(printable.Text(say(fact.Label))))
	}
	last := ""
	for _, fact := range a.Facts {
		label := printable.Text(say(fact.Label))
		if fact.Label == last {
			label = ""
		}
		last = fact.Label
		text := []string{printable.Text(fact.Text)}
		if fact.Label != commandLabel {
			text = wrap(printable.Text(say(fact.Text)), f.Width-labels-3, 0)
		}
		fmt.Fprintf(&b, " %s%s%s%s  %s\n", dim, label, strings.Repeat(" ", labels-ansi.StringWidth(label)), off,
			strings.Join(text, "\n"+strings.Repeat(" ", labels+3)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// commandLabel labels lines that are meant for a shell.
const commandLabel = "command"

// minWidth is the narrowest width to which text is wrapped.
const minWidth = 20

// wrap breaks a text at spaces into lines of at most width columns; lines after the first are indented. A width
// below minWidth leaves one line.
func wrap(text string, width, indent int) []string {
	if width < minWidth || ansi.StringWidth(text) <= width {
		return []string{text}
	}
	var lines []string
	line := ""
	for word := range strings.SplitSeq(text, " ") {
		switch {
		case line == "" && len(lines) == 0:
			line = word
		case ansi.StringWidth(line)+1+ansi.StringWidth(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = strings.Repeat(" ", indent) + word
		}
	}
	return append(lines, line)
}
