package tui

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/nodeless/nodeless/view"
)

// foot is what there is to know of the data, or the filter that is typed, and the keys.
func (a *App) foot(p *painter, t *view.Totals) {
	about, tone := "prices: "+a.o.Prices, dim
	if a.o.Prices == "" {
		about = "prices are not shown"
	}
	switch {
	case a.typing:
		about, tone = "/"+a.state().filter+"█   words, !word, key=value, key!=value; enter applies it, esc cancels", plain
	case len(t.Notes) > 0:
		about, tone = "! "+strings.Join(t.Notes, " · "), bad
	}
	p.cell(about, a.width, false, tone)
	p.WriteByte('\n')
	p.cell("enter open · d decisions · / filter · s sort · g group · w why · ? help · q quit", a.width, false, dim)
}

// helpText is the keys and what is shown.
func (a *App) helpText(p *painter) {
	for _, line := range help(a.o.Prices) {
		for _, l := range wrap(line, a.width) {
			p.cell(l, a.width, false, plain)
			p.WriteByte('\n')
		}
	}
}

func help(prices string) []string {
	if prices == "" {
		prices = "not shown"
	}
	return []string{
		"nodeless top: what your cluster's nodes run and cost, and why",
		"",
		"1 … 5 tab   nodes, pools, pending pods, decisions, savings",
		"↑ ↓ j k     select a row; ← → PgUp PgDn a page; Home End",
		"enter       pods of a node, nodes of a pool or group, details of a pod",
		"esc         back, or quit at the top; q, ctrl+c quit",
		"d           decisions about the selected node, pool or pod",
		"w           details of the selected row; ↑ ↓ scroll them",
		"/           filter: words, !word, key=value, key!=value; keys: node, pool, zone,",
		"            type, capacity, status and labels",
		"s S         sort by another column; reverse the order",
		"g           group by pool, zone, type, capacity, status, --extra-labels",
		"< >         scroll columns that do not fit",
		"$           price per hour, or per month of 730 hours",
		"Bars: what pods request of what nodes offer.",
		"CAP: od on-demand, rsv reserved, fg Fargate, vm microVM.",
		"READY-IN: from the NodeClaim's creation to its initialization.",
		"BUDGET: nodes that the pool's budgets allow to remove: Empty/Drifted/Underutilized.",
		"Prices: " + prices + ".",
		"Any key closes this.",
	}
}

// detailText is all of what there is to say of the chosen row.
func (a *App) detailText(p *painter, s *scene) {
	lines := []string{""}
	key := a.state().window.Key
	switch a.screen {
	case Nodes:
		r, ok := a.o.Model.Node(key)
		if !ok {
			lines = append(lines, key+" no longer exists")
			break
		}
		lines = append(lines, aboutNode(s, &r)...)
	case Pools:
		q := a.query(0)
		for _, r := range a.o.Model.Pools(s.now, q).Rows {
			if r.Name == key {
				lines = append(lines, "pool "+r.Name, "status  "+poolStatus(&r), "limits  "+limits(&r),
					"budgets "+strings.Join(r.Budgets, ", "), "budget  Empty/Drifted/Underutilized "+allowed(&r))
			}
		}
	case Decisions:
		if r := a.o.Model.Decision(key); r != nil {
			lines = append(lines, aboutDecision(r)...)
		}
	case Savings:
		lines = append(lines, a.aboutSaving(s, key)...)
	case Pending, pods:
		page := a.o.Model.Waiting
		if a.screen == pods {
			page = func(q view.Query) view.Page[view.PodRow] { return a.o.Model.PodsOf(a.node, q) }
		}
		gone := key + " is no longer pending"
		for _, r := range page(a.query(1)).Rows {
			if r.Key() == key {
				gone = ""
				lines = append(lines, aboutPod(s, &r)...)
			}
		}
		lines = append(lines, gone)
	}
	if about, ok := a.aboutOf(); ok {
		lines = append(lines, a.lately(s, about)...)
	}
	a.page(p, lines)
}

// page writes as many lines as there is room for, below those that are above the screen.
func (a *App) page(p *painter, lines []string) {
	var all []string
	for _, line := range lines {
		all = append(all, wrap(line, a.width-1)...)
	}
	room := a.rows()
	a.above = max(0, min(a.above, len(all)-room))
	for i, l := range all[a.above:min(len(all), a.above+room)] {
		if below := len(all) - a.above - room; below > 0 && i == room-1 {
			l = fmt.Sprintf("↓ %d more lines", below+1)
		}
		p.cell(" "+l, a.width, false, plain)
		p.WriteByte('\n')
	}
}

func aboutNode(s *scene, r *view.NodeRow) []string {
	out := []string{
		"node    " + r.Name, "claim   " + r.Claim, "status  " + statusText(s, r),
		fmt.Sprintf("type    %s, %s, %s, %s/h", r.Type, r.CapacityType, r.Zone, s.price(r.Price)),
		"created " + r.Created.UTC().Format(time.RFC3339) + ", ready in " + readyIn(r),
	}
	for _, why := range r.Why {
		out = append(out, "why     "+why)
	}
	var labels []string
	for k, v := range r.Labels {
		labels = append(labels, k+"="+v)
	}
	return append(out, "labels  "+strings.Join(sortedNaturally(labels), " "))
}

func aboutPod(s *scene, r *view.PodRow) []string {
	out := []string{"pod     " + r.Key(), "age     " + view.Age(s.now, r.Created)}
	for i, name := range s.resources {
		out = append(out, fmt.Sprintf("%-7s %s", name, view.Quantity(name, r.Requests[i])))
	}
	if r.Node != "" {
		return append(out, "node    "+r.Node)
	}
	return append(out, "why     "+r.Why)
}

// wrap breaks a line where words end. What it holds besides letters becomes visible first.
func wrap(line string, w int) []string {
	return strings.Split(ansi.Wrap(view.Escape(line), max(10, w), ""), "\n")
}
