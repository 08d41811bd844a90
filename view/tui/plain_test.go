package tui

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nodeless/nodeless/explain/record"
	"github.com/nodeless/nodeless/view"
)

func TestTablesForPrograms(t *testing.T) {
	for _, screen := range []Screen{Nodes, Pools, Pending, Decisions, Savings, Costs} {
		for _, output := range []string{"", "wide", "name"} {
			var out strings.Builder
			o := app(t, shop(t), 80, 24, false).o
			o.Screen = screen
			if err := Print(&out, o, output, true); err != nil {
				t.Fatal(err)
			}
			golden(t, "print-"+Screens[screen]+"-"+output, out.String())
		}
	}
	var out strings.Builder
	o := app(t, shop(t), 80, 24, false).o
	if err := Print(&out, o, "", false); err != nil || strings.Contains(out.String(), "NODE") ||
		strings.Contains(out.String(), "hour") || strings.Count(out.String(), "\n") != 9 {
		t.Errorf("without headers: %v\n%s", err, out.String())
	}
	m, err := view.New([]string{"cpu"})
	if err != nil {
		t.Fatal(err)
	}
	m.SetNode(&view.Node{Name: "metal", Ready: true})
	m.SetPool(&view.Pool{Name: "own"})
	for _, screen := range []Screen{Nodes, Pools, Costs} {
		alone := o
		alone.Model, alone.Screen, out = m, screen, strings.Builder{}
		if err := Print(&out, alone, "", true); err != nil || strings.Contains(out.String(), "$/H") {
			t.Errorf("no price is known: %v\n%s", err, out.String())
		}
	}
	o.Prices, out = "", strings.Builder{}
	if err := Print(&out, o, "wide", true); err != nil || strings.Contains(out.String(), "$") ||
		strings.Contains(out.String(), "hour") {
		t.Errorf("without prices: %v\n%s", err, out.String())
	}
}

func TestADocumentForPrograms(t *testing.T) {
	var out strings.Builder
	o := app(t, shop(t), 80, 24, false).o
	if err := Print(&out, o, "json", true); err != nil {
		t.Fatal(err)
	}
	golden(t, "print-json", out.String())
	var d view.Document
	if err := json.Unmarshal([]byte(out.String()), &d); err != nil {
		t.Fatal(err)
	}
	var sum float64
	for _, n := range d.Nodes {
		if n.PricePerHour != nil {
			sum += *n.PricePerHour
		}
	}
	if len(d.Nodes) != 9 || len(d.Pools) != 3 || len(d.Pending) != 2 || sum-d.Totals.PricePerHour > 1e-9 ||
		d.Totals.PricePerHour-sum > 1e-9 {
		t.Errorf("%d nodes for %v, %d pools, %d pending: %+v", len(d.Nodes), sum, len(d.Pools), len(d.Pending), d.Totals)
	}
	out = strings.Builder{}
	if err := Print(&out, o, "yaml", true); err != nil || !strings.Contains(out.String(), "kind: ClusterView\n") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// Decisions and savings are printed for programs as nodeless decisions and savings print them.
func TestDecisionsForPrograms(t *testing.T) {
	o := app(t, shop(t), 80, 24, false).o
	var list record.List
	var ledger record.Ledger
	for screen, into := range map[Screen]any{Decisions: &list, Savings: &ledger} {
		var out strings.Builder
		o.Screen = screen
		if err := Print(&out, o, "json", true); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(out.String()), into); err != nil {
			t.Fatal(err)
		}
	}
	if list.Kind != "DecisionList" || len(list.Items) != 4 || list.Items[0].ID != "a1" ||
		len(list.Items[0].Outcomes) != 1 {
		t.Errorf("decisions: %+v", list)
	}
	if ledger.Kind != "SavingsLedger" || len(ledger.Savings) != 2 || ledger.Savings[0].Decision != "b2" ||
		ledger.Dollars == 0 {
		t.Errorf("savings: %+v", ledger)
	}
}

// Why a node was kept half an hour ago is not why it is kept now: not on the screen, in the table, or for programs.
func TestWhatWasSaidLongAgoIsNotShown(t *testing.T) {
	for ago, want := range map[time.Duration]bool{20 * time.Minute: true, 50 * time.Minute: false} {
		a := app(t, shop(t), 200, 24, false)
		now := a.o.Now().Add(ago)
		a.o.Now = func() time.Time { return now }
		for _, output := range []string{"", "wide", "json", "yaml"} {
			var out strings.Builder
			if err := Print(&out, a.o, output, true); err != nil {
				t.Fatal(err)
			}
			if output != "" && strings.Contains(out.String(), "kept: ") != want {
				t.Errorf("-o %s after %s:\n%s", output, ago, out.String())
			}
		}
		a = app(t, shop(t), 400, 24, false)
		a.o.Now = func() time.Time { return now }
		a.Update(ticked{})
		if strings.Contains(a.Frame(), "kept: ") != want {
			t.Errorf("after %s:\n%s", ago, a.Frame())
		}
	}
}
