// Package printable makes text of unknown origin safe to show: no name or message can move a terminal's cursor or
// change the text direction.
package printable

import (
	"fmt"
	"strings"
	"unicode"
)

// Text returns s with every character escaped that is invisible or can change how others appear: controls, line ends,
// and characters that change the text direction.
func Text(s string) string {
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

// Lines applies Text to each line of s.
func Lines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = Text(lines[i])
	}
	return strings.Join(lines, "\n")
}

func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' ||
		r == unicode.ReplacementChar
}

// JSON returns JSON text with such characters as JSON escapes: the same data, safe to show.
func JSON(text []byte) []byte {
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
