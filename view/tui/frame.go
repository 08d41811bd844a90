package tui

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/nodeless/nodeless/view"
)

// Frame is the screen as text: lines of at most the width, no more than the height. It costs what is seen, not what
// is there.
func (a *App) Frame() string {
	p := &painter{style: a.o.Style, colours: a.colours}
	p.Grow(4 * a.width * a.height)
	s, t := a.scene(), a.o.Model.Totals()
	switch {
	case a.help:
		a.helpText(p)
	case a.detail:
		a.summary(p, s, &t)
		a.detailText(p, s)
	default:
		a.summary(p, s, &t)
		a.table(p, s, &t)
	}
	a.foot(p, &t)
	return a.clipped(p.String())
}

// chrome is how many lines are no rows: title, a line a resource, pods, tabs, titles of columns, and two at the foot.
func (a *App) chrome() int { return 6 + len(a.o.Model.Resources()) }

// rows is how many there is room for.
func (a *App) rows() int { return max(1, a.height-a.chrome()) }

// roomy is the width from which on every line fits as it is written.
const roomy = 60

// clipped is what of a frame the terminal has room for.
func (a *App) clipped(frame string) string {
	lines := strings.Split(strings.TrimSuffix(frame, "\n"), "\n")
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

// summary is what the cluster is and costs as a whole.
func (a *App) summary(p *painter, s *scene, t *view.Totals) {
	cost := ""
	if !s.unpriced {
		cost = view.PerHour(t.Price) + "/hour · " + view.PerMonth(t.Price) + "/month"
		if t.Unpriced > 0 {
			cost += fmt.Sprintf(" + %d unpriced", t.Unpriced)
		}
	}
	_, n := fit(cost, a.width)
	p.cell("nodeless top · "+a.o.Context, max(0, a.width-n-1), false, bold)
	p.blank(1)
	p.cell(cost, n, false, bold)
	p.WriteByte('\n')
	for i, name := range s.resources {
		used, offered := t.Requests[i], t.Allocatable[i]
		p.cell(name, 8, false, plain)
		p.bar(view.Share(used, offered), offered > 0, max(8, min(40, a.width-34)))
		p.blank(1)
		p.cell(view.Amount(name, used)+" of "+view.Amount(name, offered)+" requested",
			max(0, a.width-9-max(8, min(40, a.width-34))), false, dim)
		p.WriteByte('\n')
	}
	var nodes []string
	for _, c := range []struct {
		n    int
		what string
	}{{t.OnTheirWay, "launching"}, {t.NotReady - t.OnTheirWay, "not ready"}, {t.Going, "being removed"}} {
		if c.n > 0 {
			nodes = append(nodes, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	line := fmt.Sprintf("pods    %d pending · %d running", t.Pending, t.Running)
	if len(nodes) > 0 {
		line += "   nodes " + strings.Join(nodes, " · ")
	}
	p.cell(line, a.width, false, plain)
	p.WriteByte('\n')
}

// wordy is the width from which on every tab says how many rows it has.
const wordy = 110

// tabs name the screens and say how the shown one is ordered.
func (a *App) tabs(p *painter, t *view.Totals, of, shown int) {
	left := 0
	decided, _ := a.o.Model.Decided()
	counts := []int{t.Rows, t.PoolCount, t.Waiting, decided}
	for i, name := range Screens {
		text := fmt.Sprintf("%d %s ", i+1, name)
		if i < len(counts) && (a.width >= wordy || Screen(i) == a.tab()) {
			text += fmt.Sprintf("%d ", counts[i])
		}
		tone := dim
		if Screen(i) == a.tab() {
			text, tone = "["+strings.TrimSpace(text)+"]", bold
		} else {
			text = " " + text
		}
		p.cell(text, len(text), false, tone)
		left += len(text)
	}
	st := a.state()
	var about []string
	if a.screen == pods {
		about = append(about, "pods of "+a.node)
	}
	if a.screen == Decisions && a.about != (view.About{}) {
		about = append(about, "about "+a.about.String())
	}
	if st.filter != "" && !a.typing {
		about = append(about, fmt.Sprintf("/%s: %d of %d", st.filter, shown, of))
	}
	if st.group != "" {
		about = append(about, "by "+st.group)
	}
	if a.screen != Pools && st.sort.Key != "" {
		about = append(about, "sort "+st.sort.String())
	}
	p.cell(" "+strings.Join(about, " · "), max(0, a.width-left), false, plain)
	p.WriteByte('\n')
}

func (a *App) table(p *painter, s *scene, t *view.Totals) {
	switch a.screen {
	case Nodes:
		page := a.o.Model.Nodes(a.query(a.rows()))
		a.tabs(p, t, page.Of, page.Shown)
		columns := place(nodeColumns(s, a.o.Labels), a.width, a.scrolled)
		body(a, p, s, columns, page, func(l *view.Line) *view.NodeRow {
			if l.Head != nil {
				return nil
			}
			return &l.Row
		}, "no nodes")
	case Pools:
		page := a.o.Model.Pools(s.now, a.query(a.rows()))
		a.tabs(p, t, page.Of, page.Shown)
		body(a, p, s, place(poolColumns(s), a.width, a.scrolled), page, itself, "no pools")
	case Pending:
		page := a.o.Model.Waiting(a.query(a.rows()))
		a.tabs(p, t, page.Of, page.Shown)
		body(a, p, s, place(podColumns(s, true), a.width, a.scrolled), page, itself, "no pending pods")
	case Decisions:
		page := a.o.Model.Decisions(a.about, a.query(a.rows()))
		a.tabs(p, t, page.Of, page.Shown)
		body(a, p, s, place(decisionColumns(), a.width, a.scrolled), page, itself, a.undecided("no decisions yet"))
	case Savings:
		page := a.o.Model.Savings(s.now, a.query(a.rows()-1))
		a.tabs(p, t, page.Of, page.Shown)
		a.ledgerLine(p, s)
		body(a, p, s, place(savingColumns(), a.width, a.scrolled), page, itself, a.undecided("no savings yet"))
	case pods:
		page := a.o.Model.PodsOf(a.node, a.query(a.rows()-1))
		a.tabs(p, t, page.Of, page.Shown)
		a.nodeLine(p, s)
		body(a, p, s, place(podColumns(s, false), a.width, a.scrolled), page, itself, "no pods")
	}
}

func itself[R any](r *R) *R { return r }

// nodeLine says of the node whose pods are shown what matters.
func (a *App) nodeLine(p *painter, s *scene) {
	text := "it no longer exists"
	if r, ok := a.o.Model.Node(a.node); ok {
		parts := []string{statusText(s, &r), cmp.Or(r.Type, "-"), cmp.Or(r.CapacityType, "-"), cmp.Or(r.Zone, "-")}
		if !s.unpriced {
			parts = append(parts, s.price(r.Price)+"/h")
		}
		text = strings.Join(append(parts, r.Why...), " · ")
	}
	p.cell(" "+text, a.width, false, plain)
	p.WriteByte('\n')
}

// body writes the titles and the rows that are seen, and remembers where they are.
func body[P, R any](a *App, p *painter, s *scene, columns []placed[R], page view.Page[P], row func(*P) *R,
	none string,
) {
	st := a.state()
	st.window = page.Window
	head(p, columns, st.sort)
	p.WriteByte('\n')
	if len(page.Rows) == 0 {
		if st.filter != "" {
			none += " match /" + st.filter
		}
		p.cell(" "+none, a.width, false, dim)
		p.WriteByte('\n')
	}
	for i := range page.Rows {
		chosen := page.Window.Top+i == page.Window.Index
		if r := row(&page.Rows[i]); r != nil {
			draw(p, s, columns, r, chosen)
		} else if l, ok := any(&page.Rows[i]).(*view.Line); ok {
			a.groupLine(p, s, l, chosen)
		}
		p.WriteByte('\n')
	}
}

// groupLine is a group's head: what its nodes are together.
func (a *App) groupLine(p *painter, s *scene, l *view.Line, chosen bool) {
	mark := "─"
	if chosen {
		mark = ">"
	}
	parts := []string{
		fmt.Sprintf("%s─ %s=%s", mark, a.state().group, cmp.Or(l.Group, "(none)")),
		fmt.Sprintf("%d nodes", l.Head.Rows), fmt.Sprintf("%d pods", l.Head.Pods),
	}
	for i, name := range s.resources {
		parts = append(parts, name+" "+view.Percent(view.Share(l.Head.Requests[i], l.Head.Allocatable[i])))
	}
	if !s.unpriced && l.Head.Price > 0 {
		parts = append(parts, s.price(l.Head.Price)+map[bool]string{false: "/h", true: "/month"}[s.monthly])
	}
	text, n := fit(strings.Join(parts, " · ")+" ", a.width)
	p.in(bold, func() { p.WriteString(text + repeat("─", a.width-n)) })
}
