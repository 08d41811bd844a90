package output

import (
	"strings"
)

func Section(b *strings.Builder, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	b.WriteString(title + "\n")
	for _, l := range lines {
		b.WriteString("  " + l + "\n")
	}
}
