package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/nodeless/nodeless/explain/record"
)

// ledger is what was saved an hour after an underutilized node of $1 an hour was removed, on which the pods of a
// workload requested a quarter.
func ledger(kind string) record.Ledger {
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	return record.Savings([]record.Record{{
		Decision: record.Decision{
			ID: "d", Time: at, Kind: record.Remove, Method: "Underutilized",
			Removed: []record.RemovedNode{{
				Claim: "a", Pool: "general", Offer: record.Offer{Type: "m5.large", DollarsPerHour: 1},
			}},
			Shares: []record.Share{
				{DollarsPerHour: 0.75},
				{Workload: record.Workload{Kind: kind, Namespace: "shop", Name: "web"}, DollarsPerHour: 0.25},
			},
		},
		Outcomes: []record.Outcome{{Of: "d", Kind: record.Terminated, Claim: "a", Time: at}},
	}}, at.Add(time.Hour), record.DefaultHorizon)
}

// The sum is divided by pool, namespace or workload, as a table, for programs and for spreadsheets.
func TestSavingsAreDivided(t *testing.T) {
	for _, c := range []struct {
		by, output, kind string
		want             []string
	}{
		{"", "", "Deployment", []string{"saved", "$1.0000", "Compared with"}},
		{"pool", "", "Deployment", []string{"POOL     SAVED    NOW", "general  $1.0000  $1.0000/h", record.Division}},
		{"namespace", "", "Deployment", []string{"requested by no pod  $0.7500", "shop                 $0.2500  $0.2500/h"}},
		{"workload", "wide", "Deployment", []string{"Deployment shop/web  $0.2500", "LAUNCHED SINCE  WHAT"}},
		{"workload", "jsonpath={.sums[1].name} {.sums[1].goneDollars} {.by}", "Deployment", []string{"web 0.25 workload"}},
		{
			"workload", "custom-columns=OF:.name,SAVED:.dollars", "Deployment",
			[]string{"OF       SAVED\n<none>   0.75\nweb      0.25\n"},
		},
		{
			"workload", "csv", "Deployment",
			[]string{"workload,saved_dollars,", "\nrequested by no pod,0.75,0.75,0.75,0,0,1\nDeployment shop/web,0.25,"},
		},
		{"workload", "csv", "=cmd", []string{"\n'=cmd shop/web,0.25,"}},
		{
			"", "csv", "Deployment",
			[]string{"time,reason,", "\n2026-11-22T12:00:00Z,Underutilized,Counting,general,1,1,1,0,0,m5.large\n"},
		},
	} {
		var out strings.Builder
		l := ledger(c.kind)
		if err := (&savingsOptions{by: c.by, output: c.output}).print(&out, &l); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("--by %q -o %q prints\n%s\nwant %q", c.by, c.output, out.String(), want)
			}
		}
	}
}
