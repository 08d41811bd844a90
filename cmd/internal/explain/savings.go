package explain

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/nodeless/nodeless/cmd/internal/output"
	"github.com/nodeless/nodeless/cmd/internal/target"
	"github.com/nodeless/nodeless/explain/record"
	"github.com/nodeless/nodeless/internal/kit/printable"
)

type savingsOptions struct {
	cluster target.Flags
	output  string
	by      string
	horizon time.Duration
}

func newSavings() *cobra.Command {
	var o savingsOptions
	c := &cobra.Command{
		Use:   "savings",
		Short: "Add up what removing nodes has saved",
		Long: `Adds up, over the recorded decisions (see "nodeless decisions"), what the
removed nodes would have cost if they had kept running, less the cost of their
replacements and of nodes launched since. It is arithmetic over recorded facts
at the prices of that time, not a model of other decisions. The assumption is
printed with the sum, which errs on the low side.

--by divides the sum. Each decision's saving is divided among NodePools by the
prices of the nodes that it removed, and among namespaces and workloads (the
owners of pods: Deployment, StatefulSet, Job …) by what the pods on those nodes
requested, as "nodeless top costs" divides costs. What no pod requested, such as
the price of empty nodes, is nobody's.

-o csv prints the decisions, or with --by the sums, for spreadsheets.`,
		Example: `  # The sum, by the reason for which nodes were removed
  nodeless savings

  # Each decision with what it saved
  nodeless savings -o wide

  # By namespace; by workload, as a file for a spreadsheet
  nodeless savings --by namespace
  nodeless savings --by workload -o csv

  # Count each removed node for at most an hour
  nodeless savings --horizon 1h -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.cluster.AddCluster(c.Flags())
	c.Flags().StringVarP(&o.output, "output", "o", "", "wide, csv, json, yaml, "+output.Forms+"; by default the sums")
	c.Flags().StringVar(&o.by, "by", "", "divide the sum by pool, namespace or workload")
	_ = c.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(record.Groupings, cobra.ShellCompDirectiveNoFileComp))
	c.Flags().DurationVar(&o.horizon, "horizon", record.DefaultHorizon,
		"for how long a removed node counts at most")
	return c
}

func (o *savingsOptions) run(ctx context.Context, out, errs io.Writer) error {
	if err := output.Check(o.output, "", "wide", "csv"); err != nil {
		return err
	}
	if o.by != "" && !slices.Contains(record.Groupings, o.by) {
		return fmt.Errorf("--by %q: use one of %s", o.by, strings.Join(record.Groupings, ", "))
	}
	if o.horizon <= 0 {
		return fmt.Errorf("--horizon %s: use a time such as 24h", o.horizon)
	}
	t, err := o.cluster.Find()
	if err != nil {
		return err
	}
	_, records, err := readDecisions(ctx, t.REST, errs, "savings: not counted")
	if err != nil {
		return err
	}
	l := record.Savings(records, t.Clock.Now(), o.horizon)
	return o.print(out, &l)
}

// print writes the ledger in the format of -o.
func (o *savingsOptions) print(out io.Writer, l *record.Ledger) error {
	rows := "savings"
	if o.by != "" {
		rows, l.By, l.Sums = "sums", o.by, record.SavedBy(l.Savings, o.by)
	}
	switch {
	case output.IsData(o.output):
		return output.Rows(out, o.output, l, rows, true)
	case o.output == "csv":
		return printSpreadsheet(out, l)
	}
	return printLedger(out, l, o.output == "wide")
}

// printLedger writes the sums and, if wide, each decision.
func printLedger(out io.Writer, l *record.Ledger, wide bool) error {
	rows := [][]string{
		{
			"saved", record.Money(l.Dollars),
			fmt.Sprintf("since %s, %s ago", l.Since.Format(time.RFC3339), duration.HumanDuration(l.Until.Sub(l.Since))),
		},
		{"now", record.Money(l.DollarsPerHour) + "/h", "while nothing changes"},
	}
	for _, m := range [][2]string{{"Empty", "empty nodes"}, {"Underutilized", "nodes whose pods cost less elsewhere"}} {
		sum, n := 0.0, 0
		for _, s := range l.Savings {
			if s.Method == m[0] {
				sum, n = sum+s.Dollars, n+1
			}
		}
		rows = append(rows, []string{m[0], record.Money(sum), fmt.Sprintf("%d × %s", n, m[1])})
	}
	if l.Unpriced > 0 {
		rows = append(rows, []string{"left out", "-", fmt.Sprintf("%d × nodes of unknown price", l.Unpriced)})
	}
	if err := output.Table(out, rows...); err != nil {
		return err
	}
	if l.By != "" {
		if err := printSums(out, l); err != nil {
			return err
		}
	}
	if wide && len(l.Savings) > 0 {
		rows = [][]string{{
			"TIME", "DECISION", "REASON", "STATE", "SAVED", "NOW", "REMOVED", "REPLACEMENTS", "LAUNCHED SINCE", "WHAT",
		}}
		for _, s := range l.Savings {
			rows = append(rows, []string{
				s.Time.Format(time.RFC3339), s.Decision, s.Method, s.State, record.Money(s.Dollars),
				record.Money(s.DollarsPerHour) + "/h", record.Money(s.RemovedDollars), record.Money(-s.ReplacementDollars),
				record.Money(-s.LaunchedDollars), s.What,
			})
		}
		fmt.Fprintln(out)
		if err := output.Table(out, rows...); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "\n%s\n", l.Counterfactual)
	return err
}

// printSums writes what each pool, namespace or workload saved, and how that is divided.
func printSums(out io.Writer, l *record.Ledger) error {
	rows := [][]string{{
		strings.ToUpper(l.By), "SAVED", "NOW", "REMOVED", "REPLACEMENTS", "LAUNCHED SINCE", "DECISIONS",
	}}
	for _, s := range l.Sums {
		rows = append(rows, []string{
			s.String(), record.Money(s.Dollars), record.Money(s.DollarsPerHour) + "/h", record.Money(s.RemovedDollars),
			record.Money(-s.ReplacementDollars), record.Money(-s.LaunchedDollars), strconv.Itoa(s.Decisions),
		})
	}
	fmt.Fprintln(out)
	if err := output.Table(out, rows...); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%s\n", record.Division)
	return err
}

// printSpreadsheet writes the sums if the savings are divided, else the decisions, with the columns of the page's
// files.
func printSpreadsheet(out io.Writer, l *record.Ledger) error {
	amounts := []string{
		"saved_dollars", "dollars_per_hour", "removed_dollars", "replacements_dollars", "launched_dollars",
	}
	numbers := func(dollars ...float64) (cells []string) {
		for _, n := range dollars {
			cells = append(cells, strconv.FormatFloat(n, 'f', -1, 64))
		}
		return cells
	}
	row := func(first []string, amounts []string, last string) []string {
		return append(append(first, amounts...), last)
	}
	var rows [][]string
	if l.By != "" {
		rows = append(rows, row([]string{l.By}, amounts, "decisions"))
		for _, s := range l.Sums {
			rows = append(rows, row([]string{cell(s.String())}, numbers(s.Dollars, s.DollarsPerHour, s.RemovedDollars,
				s.ReplacementDollars, s.LaunchedDollars), strconv.Itoa(s.Decisions)))
		}
	} else {
		rows = append(rows, row([]string{"time", "reason", "state", "pools"}, amounts, "what"))
		for _, s := range l.Savings {
			rows = append(rows, row([]string{
				s.Time.Format(time.RFC3339), s.Method, s.State, cell(strings.Join(s.Pools, " ")),
			}, numbers(s.Dollars, s.DollarsPerHour, s.RemovedDollars, s.ReplacementDollars, s.LaunchedDollars), cell(s.What)))
		}
	}
	if err := csv.NewWriter(out).WriteAll(rows); err != nil {
		return fmt.Errorf("write as csv: %w", err)
	}
	return nil
}

// cell returns a text as a cell of a spreadsheet. One that it would run as a formula begins with ', as OWASP advises
// ("CSV Injection").
func cell(text string) string {
	text = printable.Text(text)
	if first, _ := utf8.DecodeRuneInString(strings.TrimSpace(text)); strings.ContainsRune("=+-@＝＋－＠", first) {
		return "'" + text
	}
	return text
}
