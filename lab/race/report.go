package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nodeless/nodeless/lab/table"
)

// measure is a column of the table. Smaller is better.
type measure struct {
	head   string
	of     func(*result) float64
	format string
	// worse reports whether ours fails against theirs.
	worse func(ours, theirs float64) bool
}

func more(ours, theirs float64) bool { return ours > theirs }

var measures = []measure{
	{"p50 s", func(r *result) float64 { return r.P50 }, "%.1f", more},
	{"p99 s", func(r *result) float64 { return r.P99 }, "%.1f", more},
	{"some pod waits, s", func(r *result) float64 { return r.Some }, "%.1f", more},
	{"hung", func(r *result) float64 { return float64(r.Hung) }, "%.0f", more},
	{"launched", func(r *result) float64 { return float64(r.Launched) }, "%.0f", func(_, _ float64) bool { return false }},
	{
		"at rest", func(r *result) float64 { return float64(r.Nodes) }, "%.0f",
		func(ours, theirs float64) bool { return ours > theirs*1.1 },
	},
	{"$/h at rest", func(r *result) float64 { return r.RestPerHour }, "%.2f", more},
	{"$", func(r *result) float64 { return r.Dollars }, "%.4f", more},
	{
		"evictions", func(r *result) float64 { return float64(r.Evictions) }, "%.0f",
		func(ours, theirs float64) bool { return ours > max(theirs/2, 5) },
	},
	{"AWS calls", func(r *result) float64 { return float64(sum(r.AWSCalls)) }, "%.0f", more},
	{"API calls", func(r *result) float64 { return float64(sum(r.Audit.Calls)) }, "%.0f", more},
	{"CPU s", func(r *result) float64 { return r.CPUSeconds }, "%.1f", more},
	{"MB read", func(r *result) float64 { return r.ReadMB }, "%.0f", more},
	{"peak MB", func(r *result) float64 { return r.PeakMB }, "%.0f", more},
}

// report prints one table. Each cell has both sides' medians, Nodeless before Karpenter, in bold where Nodeless is
// worse.
func report(w io.Writer, results []result) error {
	head := []string{"workload", "runs"}
	for _, m := range measures {
		head = append(head, m.head)
	}
	t := table.New(1, head...)
	for _, name := range names(results) {
		ours, theirs := pick(results, name, "nodeless"), pick(results, name, "karpenter")
		row := []string{name, fmt.Sprint(max(len(ours), len(theirs)))}
		for _, m := range measures {
			row = append(row, m.cell(ours, theirs))
		}
		t.Add(row...)
	}
	if err := t.Print(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nNodeless / Karpenter, medians; **bold**: Nodeless is worse. Boot time %s. "+
		"Load of this machine: %s.\n", results[0].BootTime, loads(results))
	return err
}

// names returns the workloads in the order in which they ran.
func names(results []result) []string {
	var out []string
	for i := range results {
		if !slices.Contains(out, results[i].Workload) {
			out = append(out, results[i].Workload)
		}
	}
	return out
}

func pick(results []result, workload, side string) []result {
	return slices.DeleteFunc(slices.Clone(results),
		func(r result) bool { return r.Workload != workload || r.Side != side })
}

func (m *measure) cell(ours, theirs []result) string {
	switch {
	case len(ours) == 0:
		return "– / " + fmt.Sprintf(m.format, m.median(theirs))
	case len(theirs) == 0:
		return fmt.Sprintf(m.format, m.median(ours)) + " / –"
	}
	a, b := m.median(ours), m.median(theirs)
	text := fmt.Sprintf(m.format, a)
	// values that print alike count as equal
	if m.worse(a, b) && text != fmt.Sprintf(m.format, b) {
		text = "**" + text + "**"
	}
	return text + " / " + fmt.Sprintf(m.format, b)
}

// median returns the median of the runs; for an even number, the mean of the middle two.
func (m *measure) median(of []result) float64 {
	var values []float64
	for i := range of {
		values = append(values, m.of(&of[i]))
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// loads returns the load averages by side, before and after each run.
func loads(results []result) string {
	by := map[string][]string{}
	for _, r := range results {
		by[r.Side] = append(by[r.Side], fmt.Sprintf("%.1f–%.1f", r.LoadBefore, r.LoadAfter))
	}
	var out []string
	for _, s := range sides {
		if len(by[s.name]) > 0 {
			out = append(out, s.name+" "+strings.Join(by[s.name], ", "))
		}
	}
	return strings.Join(out, "; ")
}
