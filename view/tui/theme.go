package tui

import (
	"fmt"
	"strconv"
	"strings"
)

// Style is the colours of good, middling and bad use, as terminal codes.
type Style struct{ good, middling, bad string }

// DefaultStyle uses Okabe and Ito's palette, which most colour-blind people can distinguish.
const DefaultStyle = "#009E73,#F0E442,#D55E00"

// ParseStyle parses three colours for good, middling and bad, each #RRGGBB, #RGB or a number of the terminal's
// palette, as in eks-node-viewer's --style.
func ParseStyle(text string) (Style, error) {
	names := strings.Split(text, ",")
	if len(names) != 3 {
		return Style{}, fmt.Errorf("style %q: give three colours separated by commas, such as %s", text, DefaultStyle)
	}
	var codes [3]string
	for i, name := range names {
		code, ok := colour(strings.TrimSpace(name))
		if !ok {
			return Style{}, fmt.Errorf("style %q: %q is no colour; write #RRGGBB or a number from 0 to 255", text, name)
		}
		codes[i] = code
	}
	return Style{codes[0], codes[1], codes[2]}, nil
}

// colour returns the terminal code of a colour.
func colour(name string) (string, bool) {
	if hex, ok := strings.CutPrefix(name, "#"); ok {
		if len(hex) == 3 {
			hex = string([]byte{hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]})
		}
		v, err := strconv.ParseUint(hex, 16, 32)
		return fmt.Sprintf("\x1b[38;2;%d;%d;%dm", v>>16&255, v>>8&255, v&255), err == nil && len(hex) == 6
	}
	v, err := strconv.ParseUint(name, 10, 8)
	return fmt.Sprintf("\x1b[38;5;%dm", v), err == nil
}

// tone is how a cell stands out. Without colours none does, so what it means is always written, too.
type tone uint8

const (
	plain tone = iota
	good
	middling
	bad
	dim
	bold
)

const reset = "\x1b[m"

func (s Style) code(t tone) string {
	switch t {
	case good:
		return s.good
	case middling:
		return s.middling
	case bad:
		return s.bad
	case dim:
		return "\x1b[2m"
	case bold:
		return "\x1b[1m"
	case plain:
	}
	return ""
}

// toneOf returns how well a share of what is paid for is used, by eks-node-viewer's thresholds.
func toneOf(share float64) tone {
	switch {
	case share > 0.9:
		return good
	case share > 0.6:
		return middling
	}
	return bad
}
