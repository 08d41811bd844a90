package tui

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/nodeless/nodeless/view"
)

// painter writes cells of given widths, one after the other.
type painter struct {
	strings.Builder
	style   Style
	colours bool
}

func (p *painter) in(t tone, draw func()) {
	code := ""
	if p.colours {
		code = p.style.code(t)
	}
	p.WriteString(code)
	draw()
	if code != "" {
		p.WriteString(reset)
	}
}

// cell writes text in exactly w columns. Unprintable characters become visible and harmless.
func (p *painter) cell(text string, w int, right bool, t tone) {
	text, n := fit(text, w)
	p.in(t, func() {
		if right {
			p.blank(w - n)
		}
		p.WriteString(text)
		if !right {
			p.blank(w - n)
		}
	})
}

func (p *painter) blank(n int) {
	for ; n > len(blanks); n -= len(blanks) {
		p.WriteString(blanks)
	}
	if n > 0 {
		p.WriteString(blanks[:n])
	}
}

const blanks = "                                                                "

// fit cuts text to at most w columns, and returns how many it takes.
func fit(text string, w int) (string, int) {
	text = view.Escape(text)
	n := width(text)
	if n <= w {
		return text, n
	}
	if w <= 0 {
		return "", 0
	}
	text = ansi.Truncate(text, w, "…")
	return text, width(text)
}

func width(text string) int {
	for i := 0; i < len(text); i++ {
		if text[i] >= 0x80 {
			return ansi.StringWidth(text)
		}
	}
	return len(text)
}

// bar shows a share in w columns: a bar and the percentage, or the percentage alone if a bar does not fit.
func (p *painter) bar(share float64, known bool, w int) {
	const label = 5
	text := view.Percent(share)
	if !known {
		text = "-"
	}
	n := w - label
	if n < 3 {
		p.cell(text, w, true, plain)
		return
	}
	filled := int(min(1, max(0, share)) * float64(n)) // the bar is full only if nothing is left
	if filled == 0 && share >= 0.005 {
		filled = 1
	}
	p.in(toneOf(share), func() { p.WriteString(repeat("█", filled)) })
	p.in(dim, func() { p.WriteString(repeat("░", n-filled)) })
	p.cell(text, label, true, plain)
}

var repeated = map[string]string{
	"█": strings.Repeat("█", 256), "░": strings.Repeat("░", 256),
	"─": strings.Repeat("─", 512),
}

// repeat returns n of a three-byte character.
func repeat(character string, n int) string {
	all := repeated[character]
	return all[:3*min(max(0, n), len(all)/3)]
}
