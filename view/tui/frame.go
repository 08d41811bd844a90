package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/nodeless/nodeless/view"
)

// Frame returns the screen as text: lines of at most the width, no more than the height. Its cost depends on what is
// visible, not on the size of the cluster.
func (a *App) Frame() string {
	f := &frame{
		painter: &painter{style: a.o.Style, colours: a.colours}, a: a, t: a.o.Model.Totals(),
		s: &scene{
			now: a.o.Now(), monthly: a.monthly, unpriced: a.o.Prices == "", resources: a.o.Model.Resources(),
			language: a.o.Language,
		},
	}
	f.Grow(4 * a.width * a.height)
	if a.sheet != keysSheet {
		f.summary()
	}
	switch a.sheet {
	case noSheet:
		f.table()
	case keysSheet:
		f.helpText()
	case detailSheet:
		f.detailText()
	case yamlSheet, logSheet:
		f.sheetText()
	}
	f.foot()
	return a.clipped(f.String())
}

// frame is a screen being drawn.
type frame struct {
	*painter
	a *App
	s *scene
	t view.Totals
}

// say translates a sentence.
func (f *frame) say(text string) string { return f.s.language.Say(text) }

// chrome returns how many lines are not rows: title, a line per resource, pods, tabs, column titles, and two at the
// foot.
func (a *App) chrome() int { return 6 + len(a.o.Model.Resources()) }

// rows returns how many rows fit.
func (a *App) rows() int { return max(1, a.height-a.chrome()) }

// roomy is the width from which every line fits as it is.
const roomy = 60

// clipped returns the part of a frame that fits the terminal.
func (a *App) clipped(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) > a.height {
		lines = append(lines[:max(0, a.height-1)], lines[len(lines)-1])
	}
	if a.width < roomy {
		for i, l := range lines {
			lines[i] = ansi.Truncate(l, a.width, "")
		}
	}
	return strings.Join(lines, "\n")
}

// summary writes what the cluster is and costs as a whole.
func (f *frame) summary() {
	cost := ""
	if !f.s.unpriced {
		cost = view.PerHour(f.t.Price) + "/hour · " + view.PerMonth(f.t.Price) + "/month"
		if f.t.Unpriced > 0 {
			cost += fmt.Sprintf(" + %d unpriced", f.t.Unpriced)
		}
		cost = f.say(cost)
	}
	_, n := fit(cost, f.a.width)
	f.cell("nodeless top · "+f.a.o.Context, max(0, f.a.width-n-1), false, bold)
	f.blank(1)
	f.cell(cost, n, false, bold)
	f.WriteByte('\n')
	for i, name := range f.s.resources {
		used, offered := f.t.Requests[i], f.t.Allocatable[i]
		f.cell(name, 8, false, plain)
		f.bar(view.Share(used, offered), offered > 0, max(8, min(40, f.a.width-34)))
		f.blank(1)
		f.cell(f.say(view.Amount(name, used)+" of "+view.Amount(name, offered)+" requested"),
			max(0, f.a.width-9-max(8, min(40, f.a.width-34))), false, dim)
		f.WriteByte('\n')
	}
	var nodes []string
	for _, c := range []struct {
		n    int
		what string
	}{{f.t.OnTheirWay, "launching"}, {f.t.NotReady - f.t.OnTheirWay, "not ready"}, {f.t.Going, "being removed"}} {
		if c.n > 0 {
			nodes = append(nodes, f.say(fmt.Sprintf("%d %s", c.n, c.what)))
		}
	}
	line := f.say(fmt.Sprintf("pods    %d pending · %d running", f.t.Pending, f.t.Running))
	if len(nodes) > 0 {
		line += "   " + f.say("nodes") + " " + strings.Join(nodes, " · ")
	}
	f.cell(line, f.a.width, false, plain)
	f.WriteByte('\n')
}

// wordy is the width from which every tab shows its number of rows.
const wordy = 110

// tabs writes the names of the screens and how the current one is filtered, grouped and sorted.
func (f *frame) tabs(of, shown int) {
	left := 0
	f.a.tabsAt = strings.Count(f.String(), "\n")
	decided, _ := f.a.o.Model.Decided()
	counts := []int{f.t.Rows, f.t.PoolCount, f.t.Waiting, decided}
	for i, name := range Screens {
		text := fmt.Sprintf("%d %s ", i+1, f.say(name))
		if i < len(counts) && (f.a.width >= wordy || Screen(i) == f.a.tab()) {
			text += fmt.Sprintf("%d ", counts[i])
		}
		tone := dim
		if Screen(i) == f.a.tab() {
			text, tone = "["+strings.TrimSpace(text)+"]", bold
		} else {
			text = " " + text
		}
		f.cell(text, width(text), false, tone)
		left += width(text)
		f.a.tabEnds[i] = left
	}
	st := f.a.state()
	var about []string
	if f.a.screen == pods {
		about = append(about, f.say("pods of "+f.a.node))
	}
	if f.a.screen == Decisions && f.a.about != (view.About{}) {
		about = append(about, f.say("about "+f.a.about.String()))
	}
	if st.filter != "" && !f.a.typing {
		about = append(about, fmt.Sprintf("/%s: %d of %d", st.filter, shown, of))
	}
	if st.group != "" {
		about = append(about, f.say("by "+st.group))
	}
	if f.a.screen != Pools && st.sort.Key != "" {
		about = append(about, f.say("sort "+st.sort.String()))
	}
	f.cell(" "+strings.Join(about, " · "), max(0, f.a.width-left), false, plain)
	f.WriteByte('\n')
}

func (f *frame) table() {
	switch f.a.screen {
	case Nodes:
		page := f.a.o.Model.Nodes(f.a.query(f.a.rows()))
		f.tabs(page.Of, page.Shown)
		priced := slices.ContainsFunc(page.Rows, func(l view.Line) bool { return l.Row.Priced() })
		columns := place(nodeColumns(f.s, f.a.o.Labels, priced), f.a.width, f.a.scrolled)
		body(f, columns, page, func(l *view.Line) *view.NodeRow {
			if l.Head != nil {
				return nil
			}
			return &l.Row
		}, "no nodes")
	case Pools:
		page := f.a.o.Model.Pools(f.s.now, f.a.query(f.a.rows()))
		f.tabs(page.Of, page.Shown)
		priced := slices.ContainsFunc(page.Rows, func(r view.PoolRow) bool { return r.Priced > 0 })
		body(f, place(poolColumns(f.s, priced), f.a.width, f.a.scrolled), page, itself, "no pools")
	case Pending:
		page := f.a.o.Model.Waiting(f.a.query(f.a.rows()))
		f.tabs(page.Of, page.Shown)
		body(f, place(podColumns(f.s, true), f.a.width, f.a.scrolled), page, itself, "no pending pods")
	case Decisions:
		page := f.a.o.Model.Decisions(f.a.about, f.a.query(f.a.rows()))
		f.tabs(page.Of, page.Shown)
		body(f, place(decisionColumns(), f.a.width, f.a.scrolled), page, itself, f.undecided("no decisions yet"))
	case Savings:
		page := f.a.o.Model.Savings(f.s.now, f.a.query(f.a.rows()-1))
		f.tabs(page.Of, page.Shown)
		f.ledgerLine()
		body(f, place(savingColumns(), f.a.width, f.a.scrolled), page, itself, f.undecided("no savings yet"))
	case Costs:
		q := f.a.query(f.a.rows())
		page := division(q.Group).Page(f.a.o.Model, q)
		f.tabs(page.Of, page.Shown)
		priced := slices.ContainsFunc(page.Rows, func(c view.Cost) bool { return c.Priced() })
		body(f, place(costColumns(f.s, q.Group, priced), f.a.width, f.a.scrolled), page, itself, "no costs")
	case pods:
		page := f.a.o.Model.PodsOf(f.a.node, f.a.query(f.a.rows()-1))
		f.tabs(page.Of, page.Shown)
		f.nodeLine()
		body(f, place(podColumns(f.s, false), f.a.width, f.a.scrolled), page, itself, "no pods")
	}
}

func itself[R any](r *R) *R { return r }

// nodeLine writes what matters about the node whose pods are shown.
func (f *frame) nodeLine() {
	text := "it no longer exists"
	if r, ok := f.a.o.Model.Node(f.a.node); ok {
		parts := []string{statusText(f.s, &r), cmp.Or(r.Type, "-"), cmp.Or(r.CapacityType, "-"), cmp.Or(r.Zone, "-")}
		if !f.s.unpriced {
			parts = append(parts, f.s.rate(r.Price, r.Priced()))
		}
		text = strings.Join(append(parts, r.Why...), " · ")
	}
	f.cell(" "+f.say(text), f.a.width, false, plain)
	f.WriteByte('\n')
}

// body writes the titles and the visible rows, and remembers where they are.
func body[P, R any](f *frame, columns []placed[R], page view.Page[P], row func(*P) *R, none string) {
	st := f.a.state()
	st.window = page.Window
	head(f.painter, columns, st.sort)
	f.WriteByte('\n')
	f.a.rowsAt = strings.Count(f.String(), "\n")
	if len(page.Rows) == 0 {
		if st.filter != "" {
			none += " match /" + st.filter
		}
		f.cell(" "+f.say(none), f.a.width, false, dim)
		f.WriteByte('\n')
	}
	for i := range page.Rows {
		chosen := page.Window.Top+i == page.Window.Index
		if r := row(&page.Rows[i]); r != nil {
			draw(f.painter, f.s, columns, r, chosen)
		} else if l, ok := any(&page.Rows[i]).(*view.Line); ok {
			f.groupLine(l, chosen)
		}
		f.WriteByte('\n')
	}
}

// groupLine writes a group's head: the sums of its nodes.
func (f *frame) groupLine(l *view.Line, chosen bool) {
	mark := "─"
	if chosen {
		mark = ">"
	}
	parts := []string{
		fmt.Sprintf("%s─ %s=%s", mark, f.a.state().group, cmp.Or(l.Group, "(none)")),
		f.say(fmt.Sprintf("%d nodes", l.Head.Rows)), f.say(fmt.Sprintf("%d pods", l.Head.Pods)),
	}
	for i, name := range f.s.resources {
		parts = append(parts, name+" "+view.Percent(view.Share(l.Head.Requests[i], l.Head.Allocatable[i])))
	}
	if !f.s.unpriced && l.Head.Priced > 0 {
		parts = append(parts, f.s.rate(l.Head.Price, true))
	}
	text, n := fit(strings.Join(parts, " · ")+" ", f.a.width)
	f.in(bold, func() { f.WriteString(text + repeat("─", f.a.width-n)) })
}
