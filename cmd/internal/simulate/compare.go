package simulate

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/nodeless/nodeless/engine/reason"
)

// writeComparison compares our decision, the first, with Karpenter's way, the second.
func writeComparison(w io.Writer, results []simulated) error {
	ours, theirs := &results[0], &results[1]
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tnew nodes\t$/h\tpods placed\tpods not placed\t")
	for _, r := range []struct {
		name string
		*simulated
	}{{"Nodeless", ours}, {"Karpenter's way", theirs}} {
		fmt.Fprintf(t, "%s\t%d\t%.4f\t%d\t%d\t\n", r.name, r.Launched, r.DollarsPerHour, r.Placed, r.Unplaced)
	}
	if ours.AtLeast > 0 {
		fmt.Fprintf(t, "proven minimum\t\t%.4f\t\t\t\n", ours.AtLeast)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, verdictOn(ours, theirs))
	return err
}

func verdictOn(ours, theirs *simulated) string {
	more := theirs.cost - ours.cost
	switch {
	case ours.Placed != theirs.Placed:
		return fmt.Sprintf("The prices are for different work: Karpenter's way places %s, Nodeless %s.",
			reason.Count(theirs.Placed, "pod"), reason.Count(ours.Placed, "pod"))
	case more == 0:
		return "Karpenter's way would pay the same."
	case ours.cost == 0:
		return fmt.Sprintf("Karpenter's way would pay %s more.", reason.Dollars(more))
	case more < 0:
		return fmt.Sprintf("Karpenter's way would pay %s less (%.1f %%).", reason.Dollars(-more),
			-100*float64(more)/float64(ours.cost))
	}
	return fmt.Sprintf("Karpenter's way would pay %s more (%.1f %%).", reason.Dollars(more),
		100*float64(more)/float64(ours.cost))
}

// differences returns the lines that only one of the texts has, in order: "- " of want, "+ " of got.
func differences(want, got string) string {
	a, b := strings.Split(strings.TrimSuffix(want, "\n"), "\n"), strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	var out strings.Builder
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(a) > 0 && len(b) > 0 && a[0] == b[0]:
			a, b = a[1:], b[1:]
		case len(b) == 0 || len(a) > 0 && !slices.Contains(b, a[0]):
			out.WriteString("- " + a[0] + "\n")
			a = a[1:]
		default:
			out.WriteString("+ " + b[0] + "\n")
			b = b[1:]
		}
	}
	if out.Len() == 0 {
		return "  (only the end of the last line)\n"
	}
	return out.String()
}
