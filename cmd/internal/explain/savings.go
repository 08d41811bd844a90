package explain

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/nodeless/nodeless/cmd/internal/output"
	"github.com/nodeless/nodeless/cmd/internal/target"
	"github.com/nodeless/nodeless/explain/record"
)

type savingsOptions struct {
	cluster target.Flags
	output  string
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
printed with the sum, which errs on the low side.`,
		Example: `  # The sum, by the reason for which nodes were removed
  nodeless savings

  # Each decision with what it saved
  nodeless savings -o wide

  # Count each removed node for at most an hour
  nodeless savings --horizon 1h -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.cluster.AddCluster(c.Flags())
	c.Flags().StringVarP(&o.output, "output", "o", "", "wide, json, yaml, "+output.Forms+"; by default the sums")
	c.Flags().DurationVar(&o.horizon, "horizon", record.DefaultHorizon,
		"for how long a removed node counts at most")
	return c
}

func (o *savingsOptions) run(ctx context.Context, out, errs io.Writer) error {
	if err := output.Check(o.output, "", "wide"); err != nil {
		return err
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
	if output.IsData(o.output) {
		return output.Rows(out, o.output, l, "savings", true)
	}
	return printLedger(out, &l, o.output == "wide")
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
