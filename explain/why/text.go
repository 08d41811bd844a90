package why

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// Text writes an answer for people; with colour what matters most stands out. Lines are broken at a width, if there is one, but not
// those that are commands. Whatever comes from the cluster is escaped: no name or message can move the cursor or turn the text around.
func (a *Answer) Text(w io.Writer, colour bool, width int) error {
	bold, dim, off := "", "", ""
	if colour {
		bold, dim, off = "\x1b[1m", "\x1b[2m", "\x1b[0m"
	}
	var b strings.Builder
	title := Printable(a.Subject.String()) + "  " + Printable(a.State)
	lines := broken(title+"  "+Printable(a.Summary), width, 1)
	if rest, whole := strings.CutPrefix(lines[0], title); whole && colour {
		subject := Printable(a.Subject.String())
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
		text := []string{Printable(f.Text)}
		if f.Label != commandLabel {
			text = broken(text[0], width-labels-3, 0)
		}
		fmt.Fprintf(&b, " %s%-*s%s  %s\n", dim, labels, Printable(label), off, strings.Join(text, "\n"+strings.Repeat(" ", labels+3)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// commandLabel is the label of lines that are to be copied into a shell.
const commandLabel = "command"

// leastWidth is the narrowest that text is broken to: below it nothing can be read.
const leastWidth = 20

// broken is a text in lines of at most so many characters, which are broken at spaces; lines after the first begin with an indent. A
// width below leastWidth leaves one line.
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

// Printable is the text with every character written out that would not be seen, or that could change how others are: controls,
// line ends, and those that turn the direction of writing.
func Printable(s string) string {
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !hidden(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// PrintableLines is Printable but for ends of lines.
func PrintableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = Printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' || r == unicode.ReplacementChar
}

// Escaped is JSON text with such characters written as JSON escapes: the same data, safe to show.
func Escaped(text []byte) []byte {
	var b strings.Builder
	for _, r := range string(text) {
		if r == '\n' || !hidden(r) {
			b.WriteRune(r)
			continue
		}
		if r > 0xffff {
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
			continue
		}
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return []byte(b.String())
}
