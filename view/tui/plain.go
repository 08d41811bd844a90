package tui

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"github.com/nodeless/nodeless/explain/record"
	"github.com/nodeless/nodeless/view"
)

// Print writes the cluster once: a table of one screen, or everything for programs.
func Print(w io.Writer, o Options, output string, headers bool) error {
	now := o.Now()
	view.SetTime(o.Model, now)
	switch output {
	case "json", "yaml":
		return printDocument(w, o, output)
	case "name":
		return printNames(w, o, now)
	}
	s := &scene{now: now, unpriced: o.Prices == "", resources: o.Model.Resources()}
	wide := output == "wide"
	q := view.Query{Sort: o.Sort}
	var rows [][]string
	switch o.Screen {
	case Pools:
		pools := o.Model.Pools(now, view.Query{}).Rows
		priced := slices.ContainsFunc(pools, func(r view.PoolRow) bool { return r.Priced > 0 })
		rows = cells(s, poolColumns(s, priced), pools, wide)
	case Pending:
		rows = cells(s, podColumns(s, true), o.Model.Waiting(view.Query{}).Rows, true)
	case Decisions:
		rows = cells(s, decisionColumns(), o.Model.Decisions(view.About{}, view.Query{}).Rows, wide)
	case Savings:
		rows = cells(s, savingColumns(), o.Model.Savings(now, view.Query{}).Rows, wide)
	case Costs:
		costs := division(o.Group).Page(o.Model, view.Query{}).Rows
		priced := slices.ContainsFunc(costs, func(c view.Cost) bool { return c.Priced() })
		rows = cells(s, costColumns(s, o.Group, priced), costs, wide)
	case Nodes, pods:
		var nodes []view.NodeRow
		for _, l := range o.Model.Nodes(q).Rows {
			nodes = append(nodes, l.Row)
		}
		priced := slices.ContainsFunc(nodes, func(r view.NodeRow) bool { return r.Priced() })
		rows = cells(s, nodeColumns(s, o.Labels, priced), nodes, wide)
	}
	if !headers {
		return printRows(w, rows[1:])
	}
	if err := printRows(w, rows); err != nil {
		return err
	}
	text := total(o, s)
	if o.Screen == Savings {
		l := o.Model.Ledger(now)
		text = strings.TrimSuffix(ledgerText(l, now), " · w: compared with what") + "\n" + l.Counterfactual
	}
	_, err := fmt.Fprintf(w, "\n%s\n", text)
	return err
}

// total returns the last line: the size and cost of the cluster.
func total(o Options, s *scene) string {
	t := o.Model.Totals()
	parts := []string{fmt.Sprintf("%d nodes", t.Nodes)}
	if t.OnTheirWay > 0 {
		parts = append(parts, fmt.Sprintf("%d launching", t.OnTheirWay))
	}
	for i, name := range s.resources {
		parts = append(parts, fmt.Sprintf("%s %s/%s %s", name, view.Amount(name, t.Requests[i]),
			view.Amount(name, t.Allocatable[i]), view.Percent(view.Share(t.Requests[i], t.Allocatable[i]))))
	}
	parts = append(parts, fmt.Sprintf("pods %d pending %d running", t.Pending, t.Running))
	if !s.unpriced {
		parts = append(parts, view.PerHour(t.Price)+"/hour", view.PerMonth(t.Price)+"/month")
		if t.Unpriced > 0 {
			parts = append(parts, fmt.Sprintf("%d without a price", t.Unpriced))
		}
	}
	return strings.Join(parts, " · ")
}

// cells returns the titles and the texts of all columns.
func cells[R any](s *scene, columns []column[R], of []R, wide bool) [][]string {
	columns = slices.DeleteFunc(columns, func(c column[R]) bool { return c.wide && !wide })
	out := make([][]string, 1+len(of))
	for _, c := range columns {
		out[0] = append(out[0], c.title)
		for i := range of {
			out[i+1] = append(out[i+1], view.Escape(c.text(s, &of[i])))
		}
	}
	return out
}

// printRows writes columns as wide as necessary, with three blanks between them, as kubectl does.
func printRows(w io.Writer, rows [][]string) error {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], width(c))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		for i, c := range row {
			b.WriteString(c)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-width(c)+3))
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func printNames(w io.Writer, o Options, now time.Time) error {
	var b strings.Builder
	say := func(kind, name string) { fmt.Fprintf(&b, "%s/%s\n", view.Escape(kind), view.Escape(name)) }
	switch o.Screen {
	case Pools:
		for _, r := range o.Model.Pools(now, view.Query{}).Rows {
			if r.Name != "" {
				say("nodepool.karpenter.sh", r.Name)
			}
		}
	case Pending:
		for _, r := range o.Model.Waiting(view.Query{}).Rows {
			say("pod", r.Name)
		}
	case Decisions:
		for _, r := range o.Model.Decisions(view.About{}, view.Query{}).Rows {
			say("decision", r.ID)
		}
	case Savings:
		for _, r := range o.Model.Savings(now, view.Query{}).Rows {
			say("decision", r.Decision)
		}
	case Costs:
		for _, r := range division(o.Group).Page(o.Model, view.Query{}).Rows {
			if r.Of != (view.Object{}) {
				say(cmp.Or(strings.ToLower(r.Of.Kind), "namespace"), cmp.Or(r.Of.Name, r.Of.Namespace))
			}
		}
	case Nodes, pods:
		for _, l := range o.Model.Nodes(view.Query{Sort: o.Sort}).Rows {
			if l.Row.HasNode {
				say("node", l.Row.Name)
			} else {
				say("nodeclaim.karpenter.sh", l.Row.Name)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func printDocument(w io.Writer, o Options, output string) error {
	text, err := json.MarshalIndent(Document(o), "", "  ")
	if err != nil {
		return fmt.Errorf("print the cluster: %w", err)
	}
	text = append(harmless(text), '\n')
	if output == "yaml" {
		if text, err = yaml.JSONToYAML(text); err != nil {
			return fmt.Errorf("print the cluster: %w", err)
		}
	}
	_, err = w.Write(text)
	return err
}

// Document returns the whole cluster or, for the screens of their own, costs, decisions or savings, the latter two as
// nodeless decisions and nodeless savings print them.
func Document(o Options) any {
	now := o.Now()
	view.SetTime(o.Model, now)
	switch o.Screen {
	case Decisions:
		list := record.List{APIVersion: "nodeless.sh/v1alpha1", Kind: "DecisionList", Items: []record.Record{}}
		for _, r := range slices.Backward(o.Model.Decisions(view.About{}, view.Query{}).Rows) {
			list.Items = append(list.Items, *r)
		}
		return list
	case Savings:
		l := o.Model.Ledger(now)
		l.Savings = []record.Saving{}
		for _, s := range slices.Backward(o.Model.Savings(now, view.Query{}).Rows) {
			l.Savings = append(l.Savings, *s)
		}
		return l
	case Costs:
		return division(o.Group).Document(o.Model, now, view.Query{})
	case Nodes, Pools, Pending, pods:
	}
	d := o.Model.Document(now, view.Query{Sort: o.Sort})
	d.Context, d.Prices = o.Context, o.Prices
	return d
}

// harmless escapes what JSON leaves as it is but a terminal would obey. Such characters occur only within strings.
func harmless(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		if r >= 0x7f && r <= 0xffff && !view.Printable(r) {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

func sortedNaturally(list []string) []string {
	slices.SortFunc(list, view.Natural)
	return list
}
