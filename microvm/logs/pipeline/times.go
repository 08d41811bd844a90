package pipeline

import (
	"fmt"
	"strings"
)

// directives of strftime(3), and Fluent Bit's %L for fractions of a second, as Go writes them.
var directives = map[byte]string{
	'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'e': "_2", 'b': "Jan", 'B': "January", 'h': "Jan", 'a': "Mon", 'A': "Monday", 'H': "15", 'I': "03", 'M': "04",
	'S': "05", 'p': "PM", 'Z': "MST", 'z': "-0700", 'j': "002", 'T': "15:04:05", 'F': "2006-01-02", 'D': "01/02/06", 'R': "15:04", '%': "%",
}

// goLayout is a format of strptime(3) as Go reads it. Go reads fractions of a second that its layout does not name, after a dot or a comma.
func goLayout(format string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		if i++; i == len(format) {
			return "", fmt.Errorf("%q ends within a directive", format)
		}
		switch d, ok := directives[format[i]]; {
		case format[i] == 'L' || format[i] == 'N':
			text := strings.TrimSuffix(b.String(), ".")
			if text == b.String() {
				return "", fmt.Errorf("%%%c follows no dot", format[i])
			}
			b.Reset()
			b.WriteString(text)
		case format[i] == 'z':
			b.WriteString("Z0700") // Z is UTC
		case ok:
			b.WriteString(d)
		default:
			return "", fmt.Errorf("%%%c is not known", format[i])
		}
	}
	return b.String(), nil
}

// goFormat is a format of strftime(3) as Go writes it.
func goFormat(format string) (string, error) {
	layout, err := goLayout(strings.ReplaceAll(strings.ReplaceAll(format, ".%L", "."), ".%N", "."))
	if err != nil {
		return "", err
	}
	if strings.Contains(format, ".%L") || strings.Contains(format, ".%N") {
		layout = strings.Replace(layout, "05.", "05.000", 1)
	}
	return strings.ReplaceAll(layout, "Z0700", "-0700"), nil
}
