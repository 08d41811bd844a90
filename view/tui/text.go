package tui

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/nodeless/nodeless/view"
)

// foot writes what to know about the data, or the line being typed, and the keys.
func (f *frame) foot() {
	about, tone := "prices: "+f.a.o.Prices, dim
	if f.a.o.Prices == "" {
		about = "prices are not shown"
	}
	switch {
	case f.a.typing:
		hint := f.say("words, !word, key=value, key!=value; enter applies it, esc cancels")
		about, tone = "/"+f.a.state().filter+"█   "+hint, plain
	case f.a.prompt.open:
		p := &f.a.prompt
		hint := f.say("tab completes it, enter goes there, esc cancels")
		about, tone = ":"+p.line+"█"+p.completion()+"   "+hint, plain
	case f.a.said != "":
		about, tone = f.say(f.a.said), plain
	case len(f.t.Notes) > 0:
		about, tone = f.note(), bad
	default:
		about = f.say(about)
	}
	f.cell(about, f.a.width, false, tone)
	f.WriteByte('\n')
	keys := f.say("enter open · d describe · y YAML · l logs · : go to · / filter · ? help · q quit")
	f.cell(keys, f.a.width, false, dim)
}

// note returns one of the notes: a line has no room for all, so they take turns.
func (f *frame) note() string {
	notes := f.t.Notes
	i, mark := int(f.s.now.Unix()/4)%len(notes), "! "
	if len(notes) > 1 {
		mark = fmt.Sprintf("! %d of %d: ", i+1, len(notes))
	}
	return mark + f.say(notes[i])
}

// helpText writes the keys and what is shown.
func (f *frame) helpText() {
	for _, line := range help(f.a.o.Prices) {
		for _, l := range wrap(f.say(line), f.a.width) {
			f.cell(l, f.a.width, false, plain)
			f.WriteByte('\n')
		}
	}
}

func help(prices string) []string {
	if prices == "" {
		prices = "not shown"
	}
	return []string{
		"nodeless top: what your cluster's nodes run and cost, and why",
		"1 … 6 tab   nodes, pools, pending pods, decisions, savings, costs; :nodes …",
		"            and :ctx NAME for another context of the kubeconfig",
		"↑ ↓ j k     select a row; ← → PgUp PgDn a page; Home End",
		"enter       pods of a node, nodes of a pool or group, details of a pod",
		"esc         back, or quit at the top; q, ctrl+c quit",
		"d w         describe the selected row, with events; ↑ ↓ scroll",
		"y l         YAML of its object; logs of a pod, or of the pod in a microVM",
		"D           decisions about the selected node, pool or pod",
		"/           filter: words, !word, key=value, key!=value; keys: node, pool, zone,",
		"            type, capacity, status and labels",
		"s S         sort by another column; reverse the order",
		"g           group nodes by a field or label, costs by namespace or workload",
		"< >         scroll columns that do not fit",
		"$           price per hour, or per month of 730 hours",
		"m           the mouse controls this program, or selects text in the terminal",
		"Bars: what pods request of what nodes offer.",
		"CAP: od on-demand, rsv reserved, fg Fargate, vm microVM.",
		"READY-IN: from the NodeClaim's creation to its initialization.",
		"BUDGET: disruptions that the pool's budgets allow: Empty/Drifted/Underutilized.",
		"Prices: " + prices + ".",
		"Any key closes this.",
	}
}

// detailText writes everything about the selected row.
func (f *frame) detailText() {
	lines := []string{""}
	key := f.a.state().window.Key
	switch f.a.screen {
	case Nodes:
		r, ok := f.a.o.Model.Node(key)
		if !ok {
			lines = append(lines, key+" no longer exists")
			break
		}
		lines = append(lines, aboutNode(f.s, &r)...)
	case Pools:
		q := f.a.query(0)
		for _, r := range f.a.o.Model.Pools(f.s.now, q).Rows {
			if r.Name == key {
				lines = append(lines, "pool "+r.Name, "status  "+poolStatus(&r), "limits  "+limits(&r),
					"budgets "+strings.Join(r.Budgets, ", "), "budget  Empty/Drifted/Underutilized "+allowed(&r))
			}
		}
	case Decisions:
		if r := f.a.o.Model.Decision(key); r != nil {
			lines = append(lines, aboutDecision(r)...)
		}
	case Savings:
		lines = append(lines, f.aboutSaving(key)...)
	case Costs:
		lines = append(lines, f.aboutCost(key)...)
	case Pending, pods:
		page := f.a.o.Model.Waiting
		if f.a.screen == pods {
			page = func(q view.Query) view.Page[view.PodRow] { return f.a.o.Model.PodsOf(f.a.node, q) }
		}
		gone := key + " is no longer pending"
		for _, r := range page(f.a.query(1)).Rows {
			if r.Key() == key {
				gone = ""
				lines = append(lines, aboutPod(f.s, &r)...)
			}
		}
		lines = append(lines, gone)
	}
	if about, ok := f.a.aboutOf(); ok {
		lines = append(lines, f.lately(about)...)
	}
	if f.a.reading.busy {
		lines = append(lines, "events  reading ...")
	}
	lines = append(lines, f.a.reading.lines...)
	for i, line := range lines {
		lines[i] = f.sayAfterLabel(line)
	}
	f.page(lines)
}

// label matches the label that a line of details begins with, and the gap behind it.
var label = regexp.MustCompile(`^\S* {2,}`)

// sayAfterLabel translates a line of details, except for its label.
func (f *frame) sayAfterLabel(line string) string {
	at := len(label.FindString(line))
	return line[:at] + f.say(line[at:])
}

// page writes as many lines as fit, below those that are above the screen.
func (f *frame) page(lines []string) {
	var all []string
	for _, line := range lines {
		all = append(all, wrap(line, f.a.width-1)...)
	}
	room := f.a.rows()
	f.a.above = max(0, min(f.a.above, len(all)-room))
	for i, l := range all[f.a.above:min(len(all), f.a.above+room)] {
		if below := len(all) - f.a.above - room; below > 0 && i == room-1 {
			l = f.say(fmt.Sprintf("↓ %d more lines", below+1))
		}
		f.cell(" "+l, f.a.width, false, plain)
		f.WriteByte('\n')
	}
}

func aboutNode(s *scene, r *view.NodeRow) []string {
	out := []string{
		"node    " + r.Name, "claim   " + r.Claim, "status  " + statusText(s, r),
		fmt.Sprintf("type    %s, %s, %s, %s", r.Type, r.CapacityType, r.Zone, s.rate(r.Price, r.Priced())),
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

// wrap breaks a line at word boundaries, after escaping it.
func wrap(line string, w int) []string {
	return strings.Split(ansi.Wrap(view.Escape(line), max(10, w), ""), "\n")
}
