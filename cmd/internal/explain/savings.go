package explain

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/nodeless/nodeless/cmd/internal/target"

	"github.com/spf13/cobra"

	"github.com/nodeless/nodeless/cmd/internal/output"
	"github.com/nodeless/nodeless/explain/record"
	"github.com/nodeless/nodeless/explain/record/store"
	"github.com/nodeless/nodeless/internal/kit/printable"
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
		Short: "What taking machines away has saved, decision by decision, against a counterfactual that is stated",
		Long: `Adds up, over the decisions that are kept (see "nodeless decisions"), what the machines that were taken away would have cost had they run on,
less what was launched in their place and since. It is arithmetic over what was written down when it happened, at the prices of that
moment: no model of what might have been decided otherwise. The counterfactual is printed with the sum. It errs to the low side.`,
		Example: `  nodeless savings
  nodeless savings -o wide
  nodeless savings --horizon 1h -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.cluster.AddTarget(c.Flags())
	c.Flags().StringVarP(&o.output, "output", "o", "", "wide, json, yaml, "+output.Forms+"; by default the sums")
	c.Flags().DurationVar(&o.horizon, "horizon", record.DefaultHorizon,
		"how long a machine that was taken away counts at most")
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
	r, err := store.NewReader(t.REST)
	if err != nil {
		return err
	}
	reading, err := r.Read(ctx)
	if err != nil {
		return err
	}
	for _, damage := range reading.Damaged {
		fmt.Fprintln(errs, "nodeless: savings: not counted:", printable.Text(damage.Error()))
	}
	l := record.Savings(reading.Records, t.Clock.Now(), o.horizon)
	if output.IsData(o.output) {
		return output.Rows(out, o.output, l, "savings", true)
	}
	return printLedger(out, &l, o.output == "wide")
}

// printLedger writes the sums, and each decision if it is to be wide.
func printLedger(out io.Writer, l *record.Ledger, wide bool) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "saved\t%s\tsince %s, %s ago\n", dollars(l.Dollars), l.Since.Format(time.RFC3339),
		ageOf(l.Until.Sub(l.Since)))
	fmt.Fprintf(w, "now\t%s/h\twhile nothing changes\n", dollars(l.DollarsPerHour))
	for _, m := range []struct{ method, text string }{
		{"Empty", "empty nodes"}, {"Underutilized", "nodes whose pods cost less elsewhere"},
	} {
		sum, n := 0.0, 0
		for _, s := range l.Savings {
			if s.Method == m.method {
				sum, n = sum+s.Dollars, n+1
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%d × %s\n", m.method, dollars(sum), n, m.text)
	}
	if l.Unpriced > 0 {
		fmt.Fprintf(w, "left out\t-\t%d × nodes of unknown price\n", l.Unpriced)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if wide && len(l.Savings) > 0 {
		w = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "\nTIME\tDECISION\tREASON\tSTATE\tSAVED\tNOW\tREMOVED\tREPLACEMENTS\tLAUNCHED SINCE\tWHAT")
		for _, s := range l.Savings {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s/h\t%s\t%s\t%s\t%s\n", s.Time.Format(time.RFC3339),
				printable.Text(s.Decision), printable.Text(s.Method), s.State,
				dollars(s.Dollars), dollars(s.DollarsPerHour), dollars(s.RemovedDollars), dollars(-s.ReplacementDollars), dollars(-s.LaunchedDollars),
				printable.Text(s.What))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "\n%s\n", l.Counterfactual)
	return err
}

// dollars is a sum of money; 0 has no sign.
func dollars(d float64) string {
	text := fmt.Sprintf("%.4f", max(d, -d))
	if d < 0 && text != "0.0000" {
		return "-$" + text
	}
	return "$" + text
}
