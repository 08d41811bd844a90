package tui

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/nodeless/nodeless/explain/record"
	"github.com/nodeless/nodeless/view"
)

// decisionColumns returns the columns of decisions.
func decisionColumns() []column[*record.Record] {
	return []column[*record.Record]{
		{
			title: "AGE", min: 5, fair: 6, rank: 1, right: true,
			text: func(s *scene, r **record.Record) string { return view.Age(s.now, (*r).Time) },
		},
		{
			title: "DECISION", min: 8, rank: 0, text: func(_ *scene, r **record.Record) string { return string((*r).Kind) },
			tone: decisionTone,
		},
		{
			title: "REASON", min: 13, fair: 15, max: 20, rank: 3,
			text: func(_ *scene, r **record.Record) string { return view.ReasonOf(*r) },
		},
		{
			title: "SAVES/H", min: 8, fair: 9, rank: 4, right: true, sort: view.SortSaves,
			text: func(_ *scene, r **record.Record) string { return dollarsOr((*r).SavesPerHour) },
		},
		{title: "ID", min: 12, rank: 5, wide: true, text: func(_ *scene, r **record.Record) string { return (*r).ID }},
		{
			title: "WHAT", min: 34, fair: 40, max: 1000, rank: 2,
			text: func(s *scene, r **record.Record) string { return s.language.Say((*r).Line()) },
		},
	}
}

// decisionTone makes what went wrong stand out; the kind says so, too.
func decisionTone(r **record.Record) tone {
	switch (*r).Kind {
	case record.Unschedulable, record.Broken, record.Lost:
		return bad
	case record.Terminate:
		return middling
	case record.Launch, record.Remove, record.Replace:
	}
	return plain
}

// savingColumns returns the columns of savings.
func savingColumns() []column[*record.Saving] {
	return []column[*record.Saving]{
		{
			title: "AGE", min: 5, fair: 6, rank: 1, right: true,
			text: func(s *scene, r **record.Saving) string { return view.Age(s.now, (*r).Time) },
		},
		{title: "REASON", min: 13, fair: 14, rank: 3, text: func(_ *scene, r **record.Saving) string { return (*r).Method }},
		{title: "STATE", min: 8, rank: 4, text: func(_ *scene, r **record.Saving) string { return (*r).State }},
		{
			title: "SAVED", min: 9, fair: 10, rank: 0, right: true, sort: view.SortSaves,
			text: func(_ *scene, r **record.Saving) string { return record.Money((*r).Dollars) }, tone: savedTone,
		},
		{
			title: "NOW/H", min: 8, fair: 9, rank: 2, right: true,
			text: func(_ *scene, r **record.Saving) string { return record.Money((*r).DollarsPerHour) },
		},
		{title: "ID", min: 12, rank: 6, wide: true, text: func(_ *scene, r **record.Saving) string { return (*r).Decision }},
		{
			title: "WHAT", min: 26, fair: 26, max: 1000, rank: 5,
			text: func(s *scene, r **record.Saving) string { return s.language.Say((*r).What) },
		},
	}
}

func savedTone(r **record.Saving) tone {
	if (*r).Dollars < 0 {
		return bad
	}
	return good
}

func dollarsOr(d float64) string {
	if d == 0 {
		return "-"
	}
	return record.Money(d)
}

// undecided returns the text shown if there are no decisions.
func (f *frame) undecided(none string) string {
	if n, why := f.a.o.Model.Decided(); n == 0 && why != "" {
		return why
	}
	return none
}

// ledgerLine writes the total savings.
func (f *frame) ledgerLine() {
	f.cell(" "+f.say(ledgerText(f.a.o.Model.Ledger(f.s.now), f.s.now)), f.a.width, false, bold)
	f.WriteByte('\n')
}

func ledgerText(l record.Ledger, now time.Time) string {
	parts := []string{
		"saved " + record.Money(l.Dollars) + " in " + view.Age(now, l.Since),
		"now " + record.Money(l.DollarsPerHour) + "/h",
	}
	if l.Unpriced > 0 {
		parts = append(parts, fmt.Sprintf("%d unpriced left out", l.Unpriced))
	}
	return strings.Join(append(parts, "w: compared with what"), " · ")
}

// aboutOf returns the object of the selected row; false if there is none.
func (a *App) aboutOf() (view.About, bool) {
	key := a.state().window.Key
	if _, group := view.GroupOf(key); group || key == "" || key == view.NoPool {
		return view.About{}, false
	}
	switch a.screen {
	case Nodes:
		r, ok := a.o.Model.Node(key)
		if ok && !r.HasNode {
			return view.About{Kind: "nodeclaim", Name: key}, true
		}
		return view.About{Kind: "node", Name: key, Claim: r.Claim}, true
	case Pools:
		return view.About{Kind: "nodepool", Name: key}, true
	case Pending, pods:
		return view.About{Kind: "pod", Name: key}, true
	case Decisions, Savings, Costs:
	}
	return view.About{}, false
}

// drill shows the decisions about the selected row.
func (a *App) drill() {
	if about, ok := a.aboutOf(); ok {
		from := a.screen
		a.states[Decisions] = state{}
		a.show(Decisions)
		a.about, a.from = about, from
	}
}

// aboutDecision returns everything that is known about a decision.
func aboutDecision(r *record.Record) []string {
	out := []string{
		"decision " + r.ID + "  " + string(r.Kind) + " " + strings.TrimPrefix(view.ReasonOf(r), "-"),
		"time     " + r.Time.UTC().Format(time.RFC3339), "why      " + r.Why,
	}
	for _, b := range r.Launched {
		out = append(out, fmt.Sprintf("launched %s for pool %s, as %s; %d types fit", b.Chosen, b.Pool,
			cmp.Or(b.Claim, "-"), b.Types))
		if b.RunnerUp != nil {
			out = append(out, "         next best "+b.RunnerUp.String())
		}
		for _, o := range b.Others {
			out = append(out, "         or "+o.String())
		}
	}
	for _, m := range r.Removed {
		out = append(out, "removed  "+cmp.Or(m.Node, m.Claim)+", "+m.Offer.String()+leaving(len(m.Pods)+m.PodsMore))
	}
	if n := len(r.Pods) + r.PodsMore; n > 0 {
		text := fmt.Sprintf("pods     %d: %s", n, strings.Join(r.Pods, " "))
		if r.PodsMore > 0 {
			text += fmt.Sprintf(" and %d more", r.PodsMore)
		}
		out = append(out, text)
	}
	if r.SavesPerHour != 0 {
		out = append(out, "saves    "+record.Money(r.SavesPerHour)+"/h")
	}
	for _, o := range r.Outcomes {
		line := fmt.Sprintf("then     %s %s %s, after %s", o.Time.UTC().Format(time.RFC3339), o.Kind,
			cmp.Or(o.Node, o.Claim), time.Duration(o.Seconds*float64(time.Second)).Round(time.Second))
		if o.Text != "" {
			line += ": " + o.Text
		}
		out = append(out, line)
	}
	return out
}

func leaving(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", with %d pods", n)
}

// aboutSaving returns a decision and what it saved.
func (f *frame) aboutSaving(id string) []string {
	var out []string
	for _, row := range f.a.o.Model.Savings(f.s.now, view.Query{}).Rows {
		if row.Decision == id {
			out = []string{
				"saved    " + record.Money(row.Dollars) + ", " + row.State + ", until " + row.Until.UTC().Format(time.RFC3339),
				"         " + record.Money(row.RemovedDollars) + " is what the removed nodes would have cost",
				"         less " + record.Money(row.ReplacementDollars) + " for their replacements and " +
					record.Money(row.LaunchedDollars) +
					" for nodes launched since",
			}
		}
	}
	if r := f.a.o.Model.Decision(id); r != nil {
		out = append(append(out, ""), aboutDecision(r)...)
	}
	return append(out, "", f.a.o.Model.Ledger(f.s.now).Counterfactual)
}

// mostLately is how many decisions are shown with the object that they are about.
const mostLately = 5

// lately returns the newest decisions about an object, a line each.
func (f *frame) lately(about view.About) []string {
	page := f.a.o.Model.Decisions(about, view.Query{Window: view.Window{Height: mostLately}})
	var out []string
	for _, r := range page.Rows {
		out = append(out, "decided "+view.Age(f.s.now, r.Time)+" ago: "+r.Line())
	}
	if page.Shown > len(page.Rows) {
		out = append(out, fmt.Sprintf("        %d more; D shows them", page.Shown-len(page.Rows)))
	}
	return out
}
