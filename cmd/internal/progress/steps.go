// Package progress prints what a command is doing, one line per step, with the seconds it took: live on a terminal,
// as plain lines elsewhere. It honours NO_COLOR and TERM=dumb.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// Printer writes steps. It is safe for concurrent use.
type Printer struct {
	mu    sync.Mutex
	w     io.Writer
	live  bool
	color bool
	width func() int // of the terminal, in columns; 0 = lines are neither cut nor wrapped
	now   func() time.Time

	open    string // the step in progress, "" if none
	started time.Time
	stop    chan struct{}
	line    string // the live line on screen, "" if none
}

// New prints to f; lines are redrawn only if f is a terminal.
func New(f *os.File) *Printer {
	tty := term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
	p := &Printer{
		w: f, live: tty, color: tty && os.Getenv("NO_COLOR") == "", now: time.Now,
		width: func() int { return 0 },
	}
	if tty {
		p.width = func() int {
			columns, _, err := term.GetSize(int(f.Fd()))
			if err != nil {
				return 80
			}
			return columns
		}
	}
	return p
}

// Plain prints whole lines to any writer.
func Plain(w io.Writer) *Printer {
	return &Printer{w: w, now: time.Now, width: func() int { return 0 }}
}

// Live reports whether lines are redrawn in place.
func (p *Printer) Live() bool { return p.live }

// Begin starts a step; on a terminal its seconds count up until Done or Fail. A step that is still open is done.
func (p *Printer) Begin(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open != "" {
		p.finish("✓", "32", "")
	}
	p.open, p.started = fmt.Sprintf(format, args...), p.now()
	if !p.live {
		return
	}
	p.stop = make(chan struct{})
	p.draw()
	go p.count(p.stop)
}

func (p *Printer) count(stop chan struct{}) {
	t := time.NewTicker(100 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
			p.mu.Lock()
			if p.stop == stop {
				p.draw()
			}
			p.mu.Unlock()
		}
	}
}

func (p *Printer) draw() {
	seconds := fmt.Sprintf("  %.1fs", p.now().Sub(p.started).Seconds())
	fmt.Fprintf(p.w, "\r\033[K %s %s%s", p.paint("…", "36"), p.cut(p.open, 3+len(seconds)), seconds)
}

// Done closes the open step, and appends a detail, if any.
func (p *Printer) Done(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finish("✓", "32", fmt.Sprintf(format, args...))
}

// Fail closes the open step as failed. The error itself is printed by the caller.
func (p *Printer) Fail() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finish("✗", "31", "")
}

func (p *Printer) finish(mark, color, detail string) {
	if p.open == "" {
		return
	}
	if p.stop != nil {
		close(p.stop)
		p.stop = nil
		fmt.Fprint(p.w, "\r\033[K")
	}
	if detail != "" {
		detail = ": " + detail
	}
	fmt.Fprintf(p.w, " %s %s%s  %.1fs\n", p.paint(mark, color), p.open, detail, p.now().Sub(p.started).Seconds())
	p.open = ""
}

// Line prints a line of its own; a live line is drawn again below it.
func (p *Printer) Line(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live && (p.line != "" || p.open != "") {
		fmt.Fprint(p.w, "\r\033[K")
	}
	fmt.Fprintln(p.w, wrap(fmt.Sprintf(format, args...), p.width()))
	if p.line != "" {
		fmt.Fprint(p.w, p.line)
	}
}

// Status shows a line that the next Status replaces; without a terminal each one is a line of its own.
func (p *Printer) Status(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	if !p.live {
		fmt.Fprintln(p.w, text)
		return
	}
	p.line = p.cut(text, 0)
	fmt.Fprint(p.w, "\r\033[K"+p.line)
}

// EndStatus keeps the live line and goes on below it.
func (p *Printer) EndStatus() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.line != "" {
		fmt.Fprintln(p.w)
		p.line = ""
	}
}

func (p *Printer) paint(s, code string) string {
	if !p.color {
		return s
	}
	return "\033[" + code + "m" + s + "\033[0m"
}

// cut shortens a text that is redrawn in place to one line of the terminal, less the columns that other text needs.
func (p *Printer) cut(s string, less int) string {
	columns := p.width() - less - 1
	runes := []rune(s)
	if p.width() == 0 || len(runes) <= columns {
		return s
	}
	return string(runes[:max(columns-1, 0)]) + "…"
}

// wrap breaks a line between words, and indents later lines a little further than the first; with 0 columns it does
// nothing.
func wrap(s string, columns int) string {
	if columns == 0 || len([]rune(s)) <= columns {
		return s
	}
	indent := s[:len(s)-len(strings.TrimLeft(s, " "))]
	var out strings.Builder
	line := indent
	for n, word := range strings.Fields(s) {
		switch {
		case n == 0:
			line += word
		case len([]rune(line))+1+len([]rune(word)) > columns:
			out.WriteString(line + "\n")
			line = indent + "    " + word
		default:
			line += " " + word
		}
	}
	out.WriteString(line)
	return out.String()
}
