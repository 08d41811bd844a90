package why

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// Text writes an answer for people; with colour what matters most stands out. Whatever comes from the cluster is escaped: no name or
// message can move the cursor or turn the text around.
func (a *Answer) Text(w io.Writer, colour bool) error {
	bold, dim, off := "", "", ""
	if colour {
		bold, dim, off = "\x1b[1m", "\x1b[2m", "\x1b[0m"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s%s  %s  %s%s%s\n", bold, Printable(a.Subject.String()), off, Printable(a.State), bold, Printable(a.Summary), off)
	width := 0
	for _, f := range a.Facts {
		width = max(width, len([]rune(f.Label)))
	}
	last := ""
	for _, f := range a.Facts {
		label := f.Label
		if label == last {
			label = ""
		}
		last = f.Label
		fmt.Fprintf(&b, " %s%-*s%s  %s\n", dim, width, Printable(label), off, Printable(f.Text))
	}
	_, err := io.WriteString(w, b.String())
	return err
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
