package output

import (
	"strings"
)

// Section writes a title and indented lines; nothing if there are no lines.
func Section(b *strings.Builder, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	b.WriteString(title + "\n")
	for _, l := range lines {
		b.WriteString("  " + l + "\n")
	}
}
